from hostctl.journals import Record
from hostctl.tally import Push, Tally, Traffic

OLD, NEW = "1" * 40, "2" * 40


def push(req: str, ref: str, **more: object) -> Record:
    refs = [{"ref": ref, "old": OLD, "new": NEW}]
    event = {"event": "push.decision", "ts": "t1", "repo": "up:a/b", "req": req, "refs": refs}
    return {**event, "decision": "allow", **more}


def outcome(req: str, op: str = "push", **more: object) -> Record:
    event = {"event": "git.outcome", "ts": "t2", "repo": "up:a/b", "req": req, "op": op}
    return {**event, "bytes_up": 10, "bytes_down": 20, **more}


def summed(*events: Record) -> Tally:
    tally = Tally()
    tally.take_all(events)
    return tally


def test_a_push_is_what_the_server_took() -> None:
    found = summed(push("1", "refs/heads/x"), push("2", "refs/heads/y"), outcome("1"))
    assert [(each.ref, each.outcome) for each in found.pushes] == [
        ("refs/heads/x", ""),
        ("refs/heads/y", "not finished"),
    ]
    failed = summed(push("1", "refs/heads/x"), outcome("1", code="U101"))
    assert failed.pushes == [Push("t1", "up:a/b", "refs/heads/x", OLD, NEW, "U101")]
    assert failed.fetched == {}


def test_fetches_and_connections_are_added_up() -> None:
    used = {"event": "egress.used", "to": "h:443", "count": 3, "bytes_up": 1, "bytes_down": 2}
    found = summed(outcome("1", "fetch"), outcome("2", "fetch"), used, used)
    assert found.fetched == {"up:a/b": Traffic(2, 20, 40)}
    assert found.hosts == {"h:443": Traffic(6, 2, 4)}


def test_refusals_are_counted_by_code_and_by_what_was_asked() -> None:
    denied = push("1", "refs/heads/main", decision="deny", code="G201")
    sums = {"event": "denials.summarised", "code": "E101", "count": 40}
    tunnel = {"event": "egress.decision", "decision": "deny", "code": "E101", "to": "h:443"}
    found = summed(denied, denied, sums, tunnel)
    assert found.refused == {
        ("G201", "up:a/b refs/heads/main"): 2,
        ("E101", ""): 40,
        ("E101", "h:443"): 1,
    }
    assert found.pushes == []


def test_what_was_done_to_it_is_told_with_its_reason() -> None:
    renewed = {"event": "session.renewed", "ts": "t3", "reason": "for 8h"}
    gate = {"event": "admin.operation", "ts": "t4", "op": "git push", "decision": "allow"}
    assert summed(renewed, gate).done == [("t3", "session renewed (for 8h)"), ("t4", "git push")]


def test_records_of_another_shape_end_nothing() -> None:
    odd: list[Record] = [
        {"event": "push.decision", "decision": "allow", "refs": "many"},
        {"event": "git.outcome", "bytes_up": "many", "repo": 7},
        {"event": 5},
        {},
    ]
    found = summed(*odd)
    assert found.to_json()["fetched"] == {"7": {"count": 1, "sent": 0, "received": 0}}
