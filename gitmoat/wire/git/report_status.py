"""Refusals in the shape git shows to its user (gitprotocol-pack, "Report Status")."""

import re
from collections.abc import Mapping, Sequence
from typing import Final

from gitmoat.wire.git.pktline import FLUSH, MAX_PAYLOAD, format_data
from gitmoat.wire.git.receivepack import PushCommands

WITH_THE_REST: Final = "refused with the rest"

_REPORT: Final = b"\x01"
_PROGRESS: Final = b"\x02"
_MAX_REASON: Final = 1000  # with a name of 1024 and a prefix it fits into one pkt-line
_NOT_SHOWN = re.compile(r"[^ -~]")


def refuse_push(
    commands: PushCommands,
    text: Sequence[str],
    reason: str | Mapping[str, str],
    odd: Sequence[bytes] = (),
) -> bytes:
    """The whole answer to a refused push: `text` for people, `reason` (per ref) for each ref.

    `odd` are names among the commands that are no refs. Every name is in the bytes it came in:
    by those git finds the ref that it shows the reason of.
    """
    report = _report(commands, reason, odd) if commands.report_status else b""
    limit = commands.side_band_limit
    if not limit:
        return report
    shown = [_shown(line).encode() + b"\n" for line in text]
    lines = b"".join(_band(_PROGRESS, line, limit) for line in shown)
    return lines + _band(_REPORT, report, limit) + FLUSH


def refuse_fetch(message: str) -> bytes:
    """The whole answer to a refused fetch: git prints `fatal: remote error: MESSAGE`."""
    lines = [_shown(line) for line in message.splitlines()]
    return format_data(b"ERR " + "\n".join(lines).encode()[: MAX_PAYLOAD - 4])


def _report(commands: PushCommands, reason: str | Mapping[str, str], odd: Sequence[bytes]) -> bytes:
    # "ok" although nothing was unpacked: on any other word git adds "remote unpack failed"
    # of its own, which sends people looking for a broken pack.
    lines = [b"unpack ok\n"]
    reasons = {} if isinstance(reason, str) else reason
    rest = reason if isinstance(reason, str) else WITH_THE_REST
    names = [command.ref.text for command in commands.commands]
    told = [(name.encode(), reasons.get(name, rest)) for name in names]
    for name, why in (*told, *((name, rest) for name in odd)):
        lines.append(b"ng %b %b\n" % (name, _shown(why)[:_MAX_REASON].encode()))
    return b"".join(map(format_data, lines)) + FLUSH


def _band(band: bytes, data: bytes, limit: int) -> bytes:
    room = limit - 5
    pieces = [data[start : start + room] for start in range(0, len(data), room)]
    return b"".join(format_data(band + piece) for piece in pieces)


def _shown(text: str) -> str:
    # A terminal prints this as it is; refs and paths in it come from the sandbox.
    return _NOT_SHOWN.sub("?", text)
