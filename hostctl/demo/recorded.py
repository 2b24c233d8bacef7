"""The last check: the audit has a record of each act, verifies, and holds no secret."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping, Sequence

from hostctl.demo.stage import CheckFailed, Stage

Record = Mapping[str, object]
_TIMEOUT = 10.0


def audit_tells_all(stage: Stage) -> str:
    deadline = time.monotonic() + _TIMEOUT
    while lacking := missing(_records(stage)):
        if time.monotonic() > deadline:
            raise CheckFailed(f"not in the audit: {', '.join(lacking)}")
        time.sleep(0.3)
    verified = stage.hostctl("audit", "verify", "--json").expect_success("audit verify")
    for path in (stage.paths.broker_audit, stage.paths.hostd_audit):
        if stage.public in path.read_text(encoding="utf-8", errors="replace"):
            raise CheckFailed(f"the password is in {path}")
    journals = json.loads(verified)["journals"]
    counts = [f"{name} {about['records']}" for name, about in journals.items()]
    return f"both chains are intact: {', '.join(counts)} records"


def _records(stage: Stage) -> list[Record]:
    ran = stage.hostctl("audit", "query", "--json")
    return [json.loads(line) for line in ran.expect_success("audit query").splitlines()]


def missing(records: Sequence[Record]) -> list[str]:
    return [what for what, is_it in _EXPECTED.items() if not any(map(is_it, records))]


def _ref(name: str) -> Callable[[Record], bool]:
    return lambda record: name in json.dumps(record.get("refs", []))


def _record_with(decision: str | None = None, **wanted: object) -> Callable[[Record], bool]:
    def is_it(record: Record) -> bool:
        if decision is not None and record.get("decision") != decision:
            return False
        return all(record.get(key) == value for key, value in wanted.items())

    return is_it


def _both(*parts: Callable[[Record], bool]) -> Callable[[Record], bool]:
    return lambda record: all(part(record) for part in parts)


_EXPECTED: dict[str, Callable[[Record], bool]] = {
    "the agent's push": _both(
        _record_with("allow", event="push.decision", tier="untrusted"),
        _ref("refs/heads/agent/demo"),
    ),
    "the refused push to main": _both(
        _record_with("deny", event="push.decision", code="G201"), _ref("refs/heads/main")
    ),
    "the repository outside the policy": _record_with("deny", code="G101"),
    "the gate's push": _both(
        _record_with("allow", event="push.decision", tier="helper"), _ref("refs/heads/ci/demo")
    ),
    "the refused visit to the credential socket": _record_with("deny", code="H101"),
    "the revocation": _record_with(event="session.revoked", reason="demo"),
    "the sandboxes": _record_with(event="sandbox.created"),
}
