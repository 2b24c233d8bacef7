"""Runs in a sandbox: writes a pack that is valid to the letter and meant to hurt its reader.

packs.py KIND FILE    prints the commit in it, if it has one
"""

import hashlib
import sys
import zlib
from collections.abc import Iterator

COMMIT, TREE, BLOB, OFS_DELTA = 1, 2, 3, 6
PERSON = b"A <a@x.invalid> 1700000000 +0000"


def entry_head(kind: int, size: int) -> bytes:
    octets = [(kind << 4) | (size & 15)]
    size >>= 4
    while size:
        octets[-1] |= 0x80
        octets.append(size & 0x7F)
        size >>= 7
    return bytes(octets)


def offset(distance: int) -> bytes:
    octets = [distance & 0x7F]
    while distance := distance >> 7:
        distance -= 1
        octets.append(0x80 | (distance & 0x7F))
    return bytes(reversed(octets))


def number(value: int) -> bytes:
    octets = []
    while value >= 0x80:
        octets.append((value & 0x7F) | 0x80)
        value >>= 7
    return bytes([*octets, value])


def copies(size: int, times: int) -> bytes:
    """A delta whose result is its base, `times` times."""
    whole, rest = divmod(size, 0xFFFFFF)
    once = b"\xf0\xff\xff\xff" * whole + (b"\xf0" + rest.to_bytes(3, "little") if rest else b"")
    return number(size) + number(size * times) + once * times


def oid(kind: bytes, data: bytes) -> bytes:
    return hashlib.sha1(kind + b" %d\0" % len(data) + data).digest()


def commit_of(tree: bytes) -> bytes:
    return b"tree %b\nauthor %b\ncommitter %b\n\nx\n" % (tree.hex().encode(), PERSON, PERSON)


class Writer:
    def __init__(self, path: str, count: int) -> None:
        self.file = open(path, "wb")  # noqa: SIM115
        self.sum = hashlib.sha1()
        self.place = 0
        self.write(b"PACK" + (2).to_bytes(4, "big") + count.to_bytes(4, "big"))

    def write(self, data: bytes) -> None:
        self.file.write(data)
        self.sum.update(data)
        self.place += len(data)

    def put(self, kind: int, data: bytes) -> int:
        begun = self.place
        self.write(entry_head(kind, len(data)) + zlib.compress(data))
        return begun

    def delta(self, base: int, data: bytes) -> int:
        begun = self.place
        self.write(entry_head(OFS_DELTA, len(data)) + offset(begun - base) + zlib.compress(data))
        return begun

    def close(self) -> None:
        self.file.write(self.sum.digest())
        self.file.close()


def begin(path: str, more: int) -> tuple[Writer, str]:
    """A pack of a commit of one small file, with room for `more` objects behind it."""
    blob = b"small\n"
    tree = b"100644 a\0" + oid(b"blob", blob)
    commit = commit_of(oid(b"tree", tree))
    pack = Writer(path, 3 + more)
    for kind, data in ((COMMIT, commit), (TREE, tree), (BLOB, blob)):
        pack.put(kind, data)
    return pack, oid(b"commit", commit).hex()


def large(path: str) -> str:
    """16 MiB, and 256 times that: 4 GiB in one object."""
    pack, commit = begin(path, 2)
    size = 16 << 20
    base = pack.put(BLOB, bytes(size))
    pack.delta(base, copies(size, 256))
    pack.close()
    return commit


def slow(path: str) -> str:
    """Two thousand objects of 256 MiB: small enough for memory, and hours of work."""
    pack, commit = begin(path, 2001)
    size = 256 << 20
    base = pack.put(BLOB, bytes(size))
    same = copies(size, 1)[2 * len(number(size)) :]
    for each in range(2000):
        pack.delta(base, number(size) + number(size + 4) + same + b"\x04%04d" % each)
    pack.close()
    return commit


def deep(path: str) -> str:
    """Twenty thousand deltas in one chain, each adding an octet."""
    pack, commit = begin(path, 20_001)
    base = pack.put(BLOB, b"x")
    for size in range(1, 20_001):
        same = b"\xb0" + size.to_bytes(2, "little")
        base = pack.delta(base, number(size) + number(size + 1) + same + b"\x01x")
    pack.close()
    return commit


def trees(depth: int) -> Iterator[bytes]:
    tree = b"100644 a\0" + oid(b"blob", b"small\n")
    for _ in range(depth):
        yield tree
        tree = b"40000 d\0" + oid(b"tree", tree)


def nested(path: str) -> str:
    """A directory in a directory, sixty thousand times: deeper than git's stack."""
    all_trees = list(trees(60_000))
    commit = commit_of(oid(b"tree", all_trees[-1]))
    pack = Writer(path, 2 + len(all_trees))
    pack.put(COMMIT, commit)
    for tree in all_trees:
        pack.put(TREE, tree)
    pack.put(BLOB, b"small\n")
    pack.close()
    return oid(b"commit", commit).hex()


def zeros(path: str) -> str:
    """A commit of one file, a gigabyte of zeros: one megabyte as a pack."""
    step, steps = 1 << 20, 1 << 10
    name = hashlib.sha1(b"blob %d\0" % (step * steps))
    for _ in range(steps):
        name.update(bytes(step))
    tree = b"100644 zeros\0" + name.digest()
    commit = commit_of(oid(b"tree", tree))
    pack = Writer(path, 3)
    pack.put(COMMIT, commit)
    pack.put(TREE, tree)
    pack.write(entry_head(BLOB, step * steps) + b"\x78\x01")
    deflate = zlib.compressobj(9, zlib.DEFLATED, -15)
    same = deflate.compress(bytes(step)) + deflate.flush(zlib.Z_FULL_FLUSH)
    pack.write(same * steps + b"\x03\x00")
    adler = ((step * steps) % 65521 << 16) | 1
    pack.write(adler.to_bytes(4, "big"))
    pack.close()
    return oid(b"commit", commit).hex()


def endless(path: str) -> str:
    """The beginning of a blob that claims a terabyte; stored, so that any octets may follow."""
    pack = Writer(path, 1)
    pack.write(entry_head(BLOB, 1 << 40) + b"\x78\x01")
    pack.file.close()
    return ""


KINDS = {each.__name__: each for each in (large, slow, deep, nested, zeros, endless)}

if __name__ == "__main__":
    print(KINDS[sys.argv[1]](sys.argv[2]))
