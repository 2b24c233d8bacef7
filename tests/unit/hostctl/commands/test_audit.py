"""`hostctl audit` on journals that nobody writes any more."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from gitmoat.audit.events import DaemonStarted, PushDecision, SandboxCreated, SessionRevoked
from gitmoat.audit.journal import Sizes, open_journal
from gitmoat.paths import Paths
from hostctl.__main__ import main
from hostctl.journals import Follower, Wanted, moment


@pytest.fixture
def root(tmp_path: Path) -> Path:
    paths = Paths(tmp_path)
    paths.broker_audit.parent.mkdir(parents=True)
    paths.hostd_audit.parent.mkdir(parents=True)
    clock = iter(range(1_800_000_000, 1_900_000_000, 10))
    small = Sizes(segment=700)
    broker = open_journal(paths.broker_audit, "broker", lambda: float(next(clock)), sizes=small)
    hostd = open_journal(paths.hostd_audit, "local", lambda: float(next(clock)))
    hostd.record(DaemonStarted(name="hostd"))
    hostd.record(SandboxCreated(sandbox="aaa", name="demo"))
    for number in range(4):
        broker.record(
            PushDecision(
                sandbox="aaa",
                session="s-1",
                decision="deny" if number % 2 else "allow",
                tier="untrusted",
                repo="up:acme/app",
                refs=(),
                code="G201" if number % 2 else None,
                req=f"{number:016x}",
            )
        )
    broker.record(SessionRevoked(sandbox="bbb", session="s-2", reason="asked"))
    broker.close()
    hostd.close()
    return tmp_path


def lines(root: Path, capsys: pytest.CaptureFixture[str], *words: str) -> list[dict[str, object]]:
    assert main(["--root", str(root), "--json", "audit", *words]) == 0
    return [json.loads(line) for line in capsys.readouterr().out.splitlines()]


@pytest.mark.root
@pytest.mark.parametrize(
    ("words", "count"),
    [
        ([], 7),
        (["--event", "push.decision"], 4),
        (["--denied"], 2),
        (["--decision", "allow"], 2),
        (["--code", "G201", "--repo", "up:acme/app"], 2),
        (["--sandbox", "demo"], 5),
        (["--sandbox", "bbb"], 1),
        (["--session", "s-2"], 1),
        (["--req", "0" * 15 + "3"], 1),
        (["--req", "0" * 16, "--denied"], 0),
        (["--since", "2027-01-15T08:00:20"], 5),
        (["--until", "2027-01-15T08:00:20"], 2),
        (["--since", "2027-01-15", "-n", "3"], 3),
    ],
    ids=str,
)
def test_a_query_finds_what_matches(
    root: Path, capsys: pytest.CaptureFixture[str], words: list[str], count: int
) -> None:
    found = lines(root, capsys, "query", *words)
    assert len(found) == count
    assert [each["ts"] for each in found] == sorted(str(each["ts"]) for each in found)


@pytest.mark.root
def test_a_query_for_few_shows_the_last_of_both(
    root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    found = lines(root, capsys, "query", "-n", "2", "--sandbox", "demo")
    assert [each["req"] for each in found] == ["0" * 15 + "2", "0" * 15 + "3"]
    assert lines(root, capsys, "query", "-n", "0") == []


@pytest.mark.root
def test_an_export_can_be_verified_elsewhere_and_a_change_to_it_is_found(
    root: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    where = tmp_path / "copy"
    (told,) = lines(root, capsys, "export", str(where))
    assert told["journals"]["broker"]["records"] == 5  # type: ignore[index]
    assert sorted(path.name for path in where.iterdir()) == [
        "audit.schema.json", "broker.ndjson", "heads.json", "hostd.ndjson",
    ]  # fmt: skip
    (verified,) = lines(root, capsys, "verify", "--from", str(where))
    assert verified["journals"] == told["journals"]
    schema = json.loads((where / "audit.schema.json").read_text())
    assert schema["$id"] == "urn:gitmoat:audit:1"
    copy = where / "broker.ndjson"
    whole = copy.read_bytes()
    rows = whole.splitlines(keepends=True)
    for damaged in (
        whole.replace(b"acme", b"acne", 1),
        b"".join(rows[:1] + rows[2:]),
        b"".join([rows[1], rows[0], *rows[2:]]),
        b"".join(rows[:-1]),
    ):
        copy.write_bytes(damaged)
        assert main(["--root", str(root), "audit", "verify", "--from", str(where)]) == 1
        assert "B105" in capsys.readouterr().err


@pytest.mark.root
def test_verify_finds_each_kind_of_change_while_nobody_runs(
    root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["--root", str(root), "audit", "verify"]) == 0
    paths = Paths(root)
    for path in (paths.hostd_audit, paths.broker_audit):
        rows = path.read_bytes().splitlines(keepends=True)
        for damaged in (
            rows[:-1],
            [rows[0].replace(b"host", b"hosT", 1), *rows[1:]],
        ):
            path.write_bytes(b"".join(damaged))
            assert main(["--root", str(root), "audit", "verify"]) == 1
        path.write_bytes(b"".join(rows))
    capsys.readouterr()
    assert main(["--root", str(root), "audit", "verify"]) == 0
    assert "broker: 5 records, chain intact" in capsys.readouterr().out


@pytest.mark.root
def test_an_export_does_not_write_into_what_exists(
    root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["--root", str(root), "audit", "export", str(root)]) == 1
    assert "C109" in capsys.readouterr().err


def test_a_follower_goes_on_in_the_next_file(tmp_path: Path) -> None:
    path = tmp_path / "audit.ndjson"
    follower = Follower(path)
    journal = open_journal(path, "h", lambda: 1e9, sizes=Sizes(segment=500, reserve=0))
    seen: list[object] = []
    for _ in range(20):
        journal.record(DaemonStarted(name="x"))
        seen += [event["seq"] for event in follower.arrived()]
    journal.close()
    follower.close()
    assert seen == list(range(1, 21))
    late = Follower(path)
    assert late.arrived() == []
    late.close()


@pytest.mark.parametrize("text", ["yesterday", "", "12", "2027-1-1", "5x"])
def test_a_time_that_is_none_is_refused(text: str, root: Path) -> None:
    assert main(["--root", str(root), "audit", "query", "--since", text]) == 2


def test_times_are_durations_ago_or_utc() -> None:
    assert moment("90m", 1_800_000_000.0) == "2027-01-15T06:30:00"
    assert moment("2027-01-15T06:30Z") == "2027-01-15T06:30"
    assert Wanted(since="2027-01-15T06:30").matches({"ts": "2027-01-15T06:30:00.000Z"})
