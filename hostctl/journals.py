"""The two audit journals of a host, read as one story."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

from hostctl.clock import moment_text
from hostctl.failure import Failure, plain
from identity.paths import Paths

Record = Mapping[str, object]


def journal_paths(paths: Paths) -> dict[str, Path]:
    return {"broker": paths.broker_audit, "hostd": paths.hostd_audit}


def events(paths: Paths) -> list[Record]:
    """All records of both journals in the order of their time stamps."""
    found = [event for path in journal_paths(paths).values() for event in _read(path)]
    return sorted(found, key=lambda event: str(event.get("ts", "")))


def _read(path: Path) -> Iterator[Record]:
    from audit.verify import JournalBroken, read_events

    try:
        yield from read_events(path)
    except FileNotFoundError:
        return
    except PermissionError:
        raise Failure("C102", "the audit is for root only", str(path), "use sudo") from None
    except JournalBroken as broken:
        raise journal_broken(path, broken) from None


def journal_broken(path: Path, broken: Exception) -> Failure:
    return Failure("B105", f"the journal {path} is not whole", str(broken))


def matches(event: Record, sandboxes: frozenset[str], denied_only: bool) -> bool:
    if denied_only and event.get("decision") != "deny":
        return False
    named = (str(event.get(key)) for key in ("sandbox", "name"))
    return not sandboxes or not sandboxes.isdisjoint(named)


def sandbox_names(sandbox: str, all_events: list[Record]) -> frozenset[str]:
    """A name stands for every id the journals have known it by, also of removed sandboxes."""
    ids = {str(e["sandbox"]) for e in all_events if e.get("name") == sandbox and e.get("sandbox")}
    return frozenset({sandbox, *ids})


def event_line(event: Record) -> str:
    """One record as people read it: when, what, verdict, who, on what, why."""
    parts = [
        moment_text(event.get("ts")),
        f"{event.get('event', '?')!s:<18}",
        f"{event.get('decision') or '-'!s:<5}",
        str(event.get("name") or event.get("sandbox") or "-"),
    ]
    parts += [str(event[key]) for key in ("op", "repo") if event.get(key)]
    parts += _ref_names(event.get("refs"))
    parts += [f"{key}={event[key]}" for key in ("tier", "rule", "code") if event.get(key)]
    parts += [f"({event['reason']})"] if event.get("reason") else []
    return plain("  ".join(parts))


def _ref_names(refs: object) -> list[str]:
    if not isinstance(refs, list):
        return []
    names = [str(ref.get("ref")) if isinstance(ref, Mapping) else str(ref) for ref in refs]
    return names[:5] + ([f"and {len(names) - 5} more"] if len(names) > 5 else [])
