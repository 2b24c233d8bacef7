"""What a push asks for: the ref commands in front of the pack (gitprotocol-pack, "Pushing")."""

import re
from collections.abc import Iterable
from enum import Enum
from typing import Final, assert_never

from attrs import field, frozen
from attrs.validators import instance_of

from gitmoat.wire.git.pktline import FLUSH, Data, Delim, Flush, PktReader, ResponseEnd, format_data
from gitmoat.wire.git.push_capabilities import AGENT, PUSH_OPTIONS, Capabilities, parse_capabilities
from gitmoat.wire.git.push_certificate import PushCertificate
from gitmoat.wire.malformed import Malformed

__all__ = [
    "AGENT",
    "PUSH_OPTIONS",
    "Change",
    "Command",
    "CommandReader",
    "ObjectId",
    "PushCommands",
    "PushRefused",
    "RefName",
    "Refusal",
    "parse_ref",
]

MAX_REF: Final = 1024
MAX_OPTIONS: Final = 64
# Of the commands in all: what most pushes are far below, or so much for each ref that is allowed.
_LEAST_LIMIT: Final = 1 << 20
_EACH: Final = 256
_OPTIONS_LIMIT: Final = 1 << 16
# gitformat-pack: the signature, then the version; git itself writes version 2 and reads 3 as well.
_PACK_HEADS: Final = (b"PACK\0\0\0\2", b"PACK\0\0\0\3")
_PACK_HEAD: Final = 8

_OBJECT_ID = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")
# Of neither, control characters of either range: hooks and clients print them.
_OPTION = re.compile(r"[^\x00-\x1f\x7f-\x9f]{1,1024}")
# Longer than any path, and with a reason it still fits into one pkt-line of a report.
_REPORTABLE = re.compile(r"[^\x00-\x20\x7f-\x9f]{1,60000}")
# check_refname_format() of git's refs.c (git-check-ref-format(1)), and C1 controls (terminals obey
# them) and lone surrogates. What git would refuse never names a ref in a policy or in the audit.
_BAD_IN_REF = re.compile(
    r"[\x00-\x20\x7f-\x9f\ud800-\udfff~^:?*\[\\]|\.\.|@\{|//|/\.|\.lock(?:/|\Z)|[./]\Z"
)


@frozen
class ObjectId:
    """Lower case only, as git writes it; git would read upper case too."""

    hex: str = field(validator=instance_of(str))

    @hex.validator
    def _check(self, _attribute: object, text: str) -> None:
        if _OBJECT_ID.fullmatch(text) is None:
            raise Malformed("not an object id")

    @property
    def is_zero(self) -> bool:
        return not self.hex.strip("0")


@frozen
class RefName:
    """A full name with two levels below `refs/`: update() of git's receive-pack.c calls others a
    "funny refname" (newer versions take one level in a deletion; we do not)."""

    text: str = field(validator=instance_of(str))

    @text.validator
    def _check(self, _attribute: object, text: str) -> None:
        if not text.startswith("refs/") or text.count("/") < 2:
            raise Malformed("ref is not two levels below refs/")
        if _BAD_IN_REF.search(text):
            raise Malformed("not a valid ref name")
        if len(text.encode()) > MAX_REF:
            raise Malformed("ref name is too long")


def parse_ref(raw: bytes) -> RefName:
    """Git's rules, plus UTF-8 without control characters of either range."""
    return RefName(_utf8(raw))


class Change(Enum):
    CREATE = "create"
    UPDATE = "update"
    DELETE = "delete"


@frozen
class Command:
    """One ref to change. The upstream refuses when `old` is not what the ref holds."""

    old: ObjectId
    new: ObjectId
    ref: RefName

    def __attrs_post_init__(self) -> None:
        if self.old.is_zero and self.new.is_zero:
            raise Malformed("command has no object")

    @property
    def change(self) -> Change:
        if self.old.is_zero:
            return Change.CREATE
        return Change.DELETE if self.new.is_zero else Change.UPDATE


@frozen
class PushCommands:
    """Everything in front of the pack. No commands: git's probe before a large push."""

    commands: tuple[Command, ...] = ()
    capabilities: tuple[str, ...] = ()
    shallow: tuple[ObjectId, ...] = ()
    options: tuple[str, ...] = ()

    @property
    def has_pack(self) -> bool:
        """Git sends one, if only of no objects, unless nothing but deletions is asked for."""
        return any(each.change is not Change.DELETE for each in self.commands)

    @property
    def report_status(self) -> bool:
        return "report-status" in self.capabilities or "report-status-v2" in self.capabilities

    @property
    def side_band_limit(self) -> int:
        """The longest side-band pkt the client takes, its length field included; 0 for none."""
        if "side-band-64k" in self.capabilities:
            return 65520
        return 1000 if "side-band" in self.capabilities else 0

    def serialise(self) -> bytes:
        """Our own spelling, the one git writes: it goes upstream in place of what came."""
        lines = [f"shallow {each.hex}\n" for each in self.shallow]
        lines += [f"{each.old.hex} {each.new.hex} {each.ref.text}" for each in self.commands]
        if self.commands:
            lines[len(self.shallow)] += "\0" + "".join(f" {each}" for each in self.capabilities)
        return _section(lines) + (_section(self.options) if self._has_options else b"")

    @property
    def _has_options(self) -> bool:
        return PUSH_OPTIONS in self.capabilities


class Refusal(Enum):
    """Why a push that was understood is never served."""

    SIGNED = "signed pushes are not served"
    TOO_MANY = "push changes too many refs"
    CAPABILITY = "push asks for an unknown capability"
    REF_NAME = "push names something that is not a ref, is not UTF-8, or is over 1024 bytes"
    OPTION = "push options are too many or not plain text"


class PushRefused(Malformed):
    """Understood, but never served: `commands` and `odd` are the refs to report on.

    `odd` are names that are no refs, as sent; only a report may carry them.
    """

    def __init__(self, why: Refusal, commands: PushCommands, odd: tuple[bytes, ...] = ()) -> None:
        super().__init__(why.value, 413 if why is Refusal.TOO_MANY else 400)
        self.why = why
        self.commands = commands
        self.odd = odd


class CommandReader:
    """Reads into the pack; single use. Push options, if there are any, are read too.

    What stands behind the commands is looked at as well: receive-pack gets a pack there or
    nothing, never a second list of commands that nobody decided on.
    """

    def __init__(self, max_commands: int, limit: int | None = None) -> None:
        enough = max(_LEAST_LIMIT, max_commands * _EACH)
        self._pkts = PktReader(enough if limit is None else limit, stop_at_flush=True)
        self._max_commands = max_commands
        self._shallow: list[ObjectId] = []
        self._commands: dict[RefName, Command] = {}
        self._odd: list[bytes] = []
        self._capabilities: Capabilities | None = None
        self._certificate: PushCertificate | None = None
        self._options: list[str] | None = None
        self._refusal: Refusal | None = None
        self._failure: Malformed | None = None
        self._read: PushCommands | None = None
        self._behind = b""
        self._done = False

    def feed(self, data: bytes) -> PushCommands | None:
        """Return the commands once their pack begins; after an error every call raises it again.

        Those that have no pack are whole when the body is: `finish` returns them.
        """
        if self._failure is not None:
            raise self._failure
        if self._done:
            raise RuntimeError("the commands were read already")
        try:
            return self._take(data)
        except Malformed as failure:
            self._failure = self._in_words(failure)
            raise self._failure from None

    def finish(self) -> PushCommands:
        """The body has ended: refuse one without a whole command list, or without its pack."""
        if self._failure is not None:
            raise self._failure
        if self._read is None:
            raise Malformed("push ends inside its commands")
        if self._read.has_pack and not self._done:
            raise Malformed("push ends without a pack")
        self._done = True
        return self._read

    @property
    def leftover(self) -> bytes:
        """What came with the last of the commands: the beginning of the pack."""
        return self._behind if self._done else b""

    def _take(self, data: bytes) -> PushCommands | None:
        if self._read is not None:
            return self._follow(self._read, data)
        for pkt in self._pkts.walk(data):
            match pkt:
                case Data(payload):
                    self._line(payload.removesuffix(b"\n"))
                case Flush():
                    return self._end_section()
                case Delim() | ResponseEnd():
                    raise Malformed("pkt-line has no place in a push")
                case _:
                    assert_never(pkt)
        return None

    def _line(self, line: bytes) -> None:
        if self._options is not None:
            self._option(line)
        elif self._certificate is not None and not self._certificate.ended:
            command = self._certificate.feed(line)
            if command is not None:
                self._command(command)
        elif line.startswith(b"shallow "):
            self._shallow_line(line.removeprefix(b"shallow "))
        elif self._capabilities is None:
            self._first_line(line)
        else:
            self._command(line)

    def _first_line(self, raw: bytes) -> None:
        # read_head_info() of git's receive-pack.c reads capabilities behind any command; git's
        # send-pack.c writes them behind the first. A NUL in a later line falls to parse_ref, which
        # refuses it.
        line, _, capabilities = raw.partition(b"\0")
        self._capabilities = parse_capabilities(capabilities)
        if self._capabilities.unknown:
            self._refuse(Refusal.CAPABILITY)
        if line == b"push-cert":
            self._certificate = PushCertificate()
            self._refuse(Refusal.SIGNED)
        else:
            self._command(line)

    def _shallow_line(self, raw: bytes) -> None:
        if self._capabilities is not None:
            raise Malformed("shallow line behind a command")
        self._shallow.append(ObjectId(_utf8(raw)))

    def _command(self, line: bytes) -> None:
        old, new, name = _words(line)
        try:
            ref = parse_ref(name)
        except Malformed:
            self._odd_name(name)
            return
        # git push refuses this ("receives from more than one src"). A receive-pack that carries
        # commands out one by one would do both, and the second from a state nobody decided on.
        if ref in self._commands:
            raise Malformed("push names one ref twice")
        self._commands[ref] = Command(old, new, ref)
        if len(self._commands) > self._max_commands:
            self._refuse(Refusal.TOO_MANY)

    def _odd_name(self, raw: bytes) -> None:
        """Git sends such names (HEAD, refs/x, one in Latin-1) where the upstream offers them or is
        to refuse. It finds the reason by the very bytes that it sent."""
        try:
            text = raw.decode("utf-8")
        except UnicodeDecodeError:
            text = raw.decode("latin-1")
        if _REPORTABLE.fullmatch(text) is None:
            raise Malformed("not a valid ref name")
        self._odd.append(raw)
        self._refuse(Refusal.REF_NAME)

    def _option(self, line: bytes) -> None:
        options = self._options or []
        try:
            option = line.decode("utf-8")
        except UnicodeDecodeError:
            option = ""
        if len(options) >= MAX_OPTIONS or _OPTION.fullmatch(option) is None:
            self._refuse(Refusal.OPTION)
        else:
            self._options = [*options, option]

    def _refuse(self, why: Refusal) -> None:
        """Read on, so that every ref can be named in the refusal."""
        self._refusal = self._refusal or why

    def _end_section(self) -> PushCommands | None:
        if self._options is None:
            self._check_commands()
            if self._wants_options and self._refusal is None:
                rest, self._options = self._pkts.leftover, []
                self._pkts = PktReader(_OPTIONS_LIMIT, stop_at_flush=True)
                return self._take(rest)
        if self._refusal is not None:
            raise self._refused(self._refusal)
        self._read = self._whole()
        return self._follow(self._read, self._pkts.leftover)

    def _follow(self, commands: PushCommands, data: bytes) -> PushCommands | None:
        self._behind += data
        head = self._behind[:_PACK_HEAD]
        if not commands.has_pack:
            if head:
                raise Malformed("something follows a push that has no pack")
        elif not any(known.startswith(head) for known in _PACK_HEADS):
            raise Malformed("what follows a push's commands is not a pack")
        self._done = commands.has_pack and len(head) == _PACK_HEAD
        return commands if self._done else None

    @property
    def _wants_options(self) -> bool:
        return self._capabilities is not None and PUSH_OPTIONS in self._capabilities.served

    def _check_commands(self) -> None:
        if self._certificate is not None and not self._certificate.ended:
            raise Malformed("push certificate has no end")
        if self._shallow and self._capabilities is None:
            raise Malformed("shallow lines without a command")
        digits = self._capabilities.hex_digits if self._capabilities is not None else 40
        named = self._shallow + [
            each for command in self._commands.values() for each in (command.old, command.new)
        ]
        if any(len(each.hex) != digits for each in named):
            raise Malformed("object id is not of the push's object format")

    def _whole(self) -> PushCommands:
        served = self._capabilities.served if self._capabilities is not None else ()
        commands, options = tuple(self._commands.values()), tuple(self._options or ())
        return PushCommands(commands, served, tuple(self._shallow), options)

    def _refused(self, why: Refusal) -> PushRefused:
        return PushRefused(why, self._whole(), tuple(self._odd))

    def _in_words(self, failure: Malformed) -> Malformed:
        """More than we read is no nonsense: git is told in the way it shows."""
        known = self._capabilities is not None and not isinstance(failure, PushRefused)
        if not known or failure.status != 413:
            return failure
        return self._refused(Refusal.TOO_MANY if self._options is None else Refusal.OPTION)


def _section(lines: Iterable[str]) -> bytes:
    return b"".join(format_data(line.encode()) for line in lines) + FLUSH


def _words(line: bytes) -> tuple[ObjectId, ObjectId, bytes]:
    words = line.split(b" ", 2)
    if len(words) != 3:
        raise Malformed("not a push command")
    return ObjectId(_utf8(words[0])), ObjectId(_utf8(words[1])), words[2]


def _utf8(raw: bytes) -> str:
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError:
        raise Malformed("push command is not UTF-8") from None
