"""What an enrolled host asks the broker about its own sessions, besides signed grants."""

from __future__ import annotations

from attrs import frozen

from gitmoat.shape import key, number, optional, several, text

_NUMBER = number(0, 2**63 - 1)  # what SQLite can hold
# Whatever a host says of an end, the session ends; the broker keeps the beginning of it.
_REASON = text(4096, least=0, printable=False)


@frozen
class Activate:
    """The sidecar of a session runs, and where: its process, and what its sandbox is known by."""

    session: str = key(text())
    pid: int = key(_NUMBER)
    netns: int = key(_NUMBER)
    cgroup: int | None = key(optional(_NUMBER), None)
    first: int | None = key(optional(_NUMBER), None)  # the sandbox's own first process
    started: str | None = key(optional(text()), None)  # as Docker says it


@frozen
class Renew:
    """The owner lets a sandbox go on for so many seconds from now, also after its session's end."""

    sandbox: str = key(text())
    ttl: int = key(_NUMBER)


@frozen
class Sessions:
    """Asks how the sessions of these sandboxes stand."""

    sandboxes: tuple[str, ...] = key(several(text(), most=4096))


@frozen
class Verifying:
    """hostd tries what must be refused, for so many seconds; 0: it has done so."""

    session: str = key(text())
    seconds: int = key(_NUMBER)


@frozen
class Revoke:
    """One session, or all that live of one sandbox."""

    session: str | None = key(optional(text()), None)
    sandbox: str | None = key(optional(text()), None)
    reason: str | None = key(optional(_REASON), None)

    def __attrs_post_init__(self) -> None:
        if (self.session is None) == (self.sandbox is None):
            raise ValueError("must name a session or a sandbox")


Message = Activate | Renew | Revoke | Sessions | Verifying
