"""What a push asks for: the ref commands in front of the pack (gitprotocol-pack, "Pushing")."""

import re
from collections.abc import Iterable
from enum import Enum
from typing import Final, assert_never

from attrs import field, frozen
from attrs.validators import instance_of

from gitwire.errors import Malformed
from gitwire.pktline import FLUSH, Data, Delim, Flush, Pkt, PktReader, ResponseEnd, format_data

MAX_REF: Final = 1024
AGENT: Final = "agent=gitmoat"
PUSH_OPTIONS: Final = "push-options"

_OBJECT_ID = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")
_VALUE = re.compile(r"[!-~]{1,256}")
# git-check-ref-format(1), and C1 controls (terminals obey them) and lone surrogates.
_BAD_IN_REF = re.compile(
    r"[\x00-\x20\x7f-\x9f\ud800-\udfff~^:?*\[\\]|\.\.|@\{|//|/\.|\.lock(?:/|\Z)|[./]\Z"
)
_PLAIN: Final = frozenset(
    {
        "report-status",
        "report-status-v2",
        "side-band",
        "side-band-64k",
        "delete-refs",
        "quiet",
        "atomic",
        "ofs-delta",
        PUSH_OPTIONS,
    }
)
_HEX_DIGITS: Final = {"object-format=sha1": 40, "object-format=sha256": 64}


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
    """A full name with two levels below `refs/`, as receive-pack itself demands."""

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
        return b"".join(format_data(line.encode()) for line in lines) + FLUSH


class PushRefused(Malformed):
    """Understood, but never served. With `commands` the refusal can be one that git shows."""

    def __init__(self, what: str, commands: PushCommands) -> None:
        super().__init__(what)
        self.commands = commands


class CommandReader:
    """Reads up to the flush in front of the pack; single use."""

    def __init__(self, limit: int = 1 << 20, max_commands: int = 1000) -> None:
        self._pkts = PktReader(limit, stop_at_flush=True)
        self._max_commands = max_commands
        self._shallow: list[ObjectId] = []
        self._commands: dict[RefName, Command] = {}
        self._capabilities: tuple[str, ...] = ()
        self._failure: Malformed | None = None

    def feed(self, data: bytes) -> PushCommands | None:
        """Return the commands once they are whole; after an error every call raises it again."""
        if self._failure is not None:
            raise self._failure
        if self._pkts.stopped:
            raise RuntimeError("the commands were read already")
        try:
            return self._take(self._pkts.feed(data))
        except Malformed as failure:
            self._failure = failure
            raise

    def finish(self) -> None:
        """The body has ended: refuse one without a whole command list."""
        if self._failure is not None:
            raise self._failure
        if not self._pkts.stopped:
            raise Malformed("push ends inside its commands")

    @property
    def leftover(self) -> bytes:
        """What came with the last of the commands: the beginning of the pack."""
        return self._pkts.leftover

    def _take(self, pkts: Iterable[Pkt]) -> PushCommands | None:
        for pkt in pkts:
            match pkt:
                case Data(payload):
                    self._line(payload.removesuffix(b"\n"))
                case Flush():
                    return self._whole()
                case Delim() | ResponseEnd():
                    raise Malformed("pkt-line has no place in a push")
                case _:
                    assert_never(pkt)
        return None

    def _line(self, line: bytes) -> None:
        if line.startswith(b"push-cert"):
            raise Malformed("signed pushes are not served")
        if line.startswith(b"shallow "):
            self._shallow_line(line.removeprefix(b"shallow "))
        elif self._commands:
            self._command(line)
        else:
            # Receive-pack reads capabilities behind any command, git writes them behind the
            # first: a NUL in a later line falls to parse_ref, which refuses it.
            line, _, capabilities = line.partition(b"\0")
            self._command(line)
            self._capabilities = _parse_capabilities(capabilities)

    def _shallow_line(self, raw: bytes) -> None:
        if self._commands:
            raise Malformed("shallow line behind a command")
        self._shallow.append(ObjectId(_utf8(raw)))

    def _command(self, line: bytes) -> None:
        command = _parse_command(line)
        if command.ref in self._commands:
            raise Malformed("push names one ref twice")
        if len(self._commands) >= self._max_commands:
            raise Malformed("push changes too many refs", 413)
        self._commands[command.ref] = command

    def _whole(self) -> PushCommands:
        if self._shallow and not self._commands:
            raise Malformed("shallow lines without a command")
        self._check_object_format()
        served = tuple(each for each in self._capabilities if each != PUSH_OPTIONS)
        commands = PushCommands(tuple(self._commands.values()), served, tuple(self._shallow))
        if served != self._capabilities:
            raise PushRefused("push options are not served", commands)
        return commands

    def _check_object_format(self) -> None:
        digits = next((_HEX_DIGITS[each] for each in self._capabilities if each in _HEX_DIGITS), 40)
        named = self._shallow + [
            each for command in self._commands.values() for each in (command.old, command.new)
        ]
        if any(len(each.hex) != digits for each in named):
            raise Malformed("object id is not of the push's object format")


def _parse_command(line: bytes) -> Command:
    words = line.split(b" ", 2)
    if len(words) != 3:
        raise Malformed("not a push command")
    old, new, ref = words
    return Command(ObjectId(_utf8(old)), ObjectId(_utf8(new)), parse_ref(ref))


def _parse_capabilities(raw: bytes) -> tuple[str, ...]:
    # Git itself writes one space in front of the first capability.
    text = _utf8(raw).removeprefix(" ")
    words = text.split(" ") if text else []
    names = [word.partition("=")[0] for word in words]
    if len(names) != len(set(names)):
        raise Malformed("push repeats a capability")
    known = [_capability(word) for word in words]
    return tuple(each for each in known if each is not None)


def _capability(word: str) -> str | None:
    """What goes upstream for it: itself, our own value, or nothing."""
    if word in _PLAIN or word in _HEX_DIGITS:
        return word
    name, _, value = word.partition("=")
    if name not in ("agent", "session-id") or _VALUE.fullmatch(value) is None:
        raise Malformed("push asks for an unknown capability")
    return AGENT if name == "agent" else None


def _utf8(raw: bytes) -> str:
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError:
        raise Malformed("push command is not UTF-8") from None
