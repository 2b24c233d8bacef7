"""What the doctor says of files and engines that are not as they should be."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from gitmoat.paths import Paths
from hostctl.doctor import git_servers, installation, machine
from hostctl.doctor.enrolments import enrolments
from hostctl.doctor.findings import NOTE, OK, PROBLEM, Finding

DOCKER: dict[str, Any] = {
    "SecurityOptions": ["name=seccomp,profile=default"],
    "CgroupDriver": "systemd",
    "LiveRestoreEnabled": False,
}


@pytest.fixture
def paths(tmp_path: Path) -> Paths:
    paths = Paths(tmp_path)
    for place in (paths.etc, paths.policies, paths.state):
        place.mkdir(parents=True, mode=0o755)
    for place in (paths.hostd_state, paths.run, paths.log_dir):
        place.mkdir(parents=True, mode=0o700)
    paths.host_key.write_text("key")
    paths.host_key.chmod(0o600)
    paths.hostd_toml.write_text("version = 1\n")
    paths.hostd_toml.chmod(0o640)
    return paths


def wrong(findings: Any) -> list[Finding]:
    return [finding for finding in findings if finding.level != OK]


@pytest.mark.root
def test_files_as_they_should_be_are_one_line(paths: Paths) -> None:
    (found,) = installation.modes(paths)
    assert found.level == OK


@pytest.mark.root
@pytest.mark.parametrize(("name", "mode"), [("host_key", 0o644), ("run", 0o770), ("etc", 0o777)])
def test_a_mode_that_is_too_wide_is_narrowed(paths: Paths, name: str, mode: int) -> None:
    path: Path = getattr(paths, name)
    right = path.stat().st_mode
    path.chmod(mode)
    (found,) = wrong(installation.modes(paths))
    assert found.level == PROBLEM
    assert found.fix.startswith("chmod ")
    assert found.repair is not None
    found.repair()
    assert path.stat().st_mode == right
    assert wrong(installation.modes(paths)) == []


@pytest.mark.root
def test_a_mode_that_is_narrower_than_it_may_be_is_left(paths: Paths) -> None:
    paths.etc.chmod(0o700)
    assert wrong(installation.modes(paths)) == []


@pytest.mark.root
def test_a_file_of_somebody_elses_is_a_problem_without_a_safe_fix(paths: Paths) -> None:
    os.chown(paths.host_key, 12345, 12345)
    (found,) = wrong(installation.modes(paths))
    assert (found.level, found.repair) == (PROBLEM, None)
    assert found.fix == f"chown 0 {paths.host_key}"


@pytest.mark.root
def test_a_symlink_is_never_followed_nor_mended(paths: Paths, tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.write_text("x")
    other.chmod(0o666)
    paths.host_key.unlink()
    paths.host_key.symlink_to(other)
    (found,) = wrong(installation.modes(paths))
    assert "symlink" in found.what
    assert found.repair is None


@pytest.mark.root
def test_a_file_that_is_replaced_before_the_fix_is_not_touched(paths: Paths) -> None:
    paths.host_key.chmod(0o644)
    (found,) = wrong(installation.modes(paths))
    other = paths.hostd_state / "other"
    other.write_text("another")
    other.chmod(0o644)
    other.replace(paths.host_key)
    assert found.repair is not None
    with pytest.raises(OSError, match="replaced"):
        found.repair()
    assert paths.host_key.stat().st_mode & 0o777 == 0o644


def test_a_policy_that_does_not_parse_is_named(paths: Paths) -> None:
    (paths.policies / "good.toml").write_text('version = 1\nname = "good"\n')
    bad = paths.policies / "bad.toml"
    bad.write_text("version = 2\n")
    (found,) = wrong(installation.policies(paths))
    assert found.fix == f"hostctl policy check {bad}"


@pytest.mark.root
def test_a_socket_that_nobody_answers_on_is_removed(paths: Paths) -> None:
    import socket

    with socket.socket(socket.AF_UNIX) as dead:
        dead.bind(str(paths.hostd_socket))
    paths.hostd_socket.chmod(0o600)
    found = [each for each in installation.daemons(paths, "1") if "no daemon answers" in each.what]
    assert [each.fix for each in found] == [f"rm {paths.hostd_socket}"]
    assert found[0].repair is not None
    found[0].repair()
    assert not paths.hostd_socket.exists()


def test_a_root_whose_socket_paths_would_be_too_long_is_a_problem() -> None:
    (found, *_) = installation.daemons(Paths("/tmp/" + "x" * 90), "1")
    assert (found.level, found.fix) == (PROBLEM, "use a shorter root")


def test_what_a_killed_verification_left_is_removed_and_nothing_else(paths: Paths) -> None:
    left, other = paths.hostd_state / ".0123456789ab", paths.hostd_state / ".0123456789xy"
    for path in (left, other):
        path.write_text("marker")
    found = [each for each in installation.leftovers(paths) if str(left) in each.what]
    assert len(found) == 1
    assert found[0].repair is not None
    found[0].repair()
    assert other.exists()
    assert not left.exists()


@pytest.mark.parametrize(
    ("base", "count", "words"),
    [(0, 10, "uid 0 belongs to root"), (61_000, 1000, "systemd"), (2_000_000_000, 3, "")],
)
def test_uids_of_somebody_else_are_found(paths: Paths, base: int, count: int, words: str) -> None:
    paths.hostd_toml.write_text(f"[uids]\nbase = {base}\ncount = {count}\n")
    found = wrong(installation.uids(paths))
    assert bool(found) == bool(words)
    assert not words or words in found[0].what


@pytest.mark.parametrize(
    ("version", "change", "level"),
    [
        ("24.0.7", {}, None),
        ("20.10.24+dfsg1", {}, None),
        ("19.03.1", {}, PROBLEM),
        ("24.0.7", {"SecurityOptions": []}, PROBLEM),
        ("24.0.7", {"SecurityOptions": ["name=seccomp", "name=userns"]}, PROBLEM),
        ("24.0.7", {"SecurityOptions": ["name=seccomp", "name=rootless"]}, PROBLEM),
        ("24.0.7", {"LiveRestoreEnabled": True}, NOTE),
    ],
)
def test_an_engine_is_judged_by_what_it_says(
    version: str, change: dict[str, Any], level: str | None
) -> None:
    found = wrong(machine.judge_docker({"Version": version}, {**DOCKER, **change}))
    assert [each.level for each in found] == ([level] if level else [])


def test_the_engine_that_hostd_is_configured_to_use_is_looked_for(
    paths: Paths, tmp_path: Path
) -> None:
    assert installation.docker_socket(paths) is None
    with paths.hostd_toml.open("a") as file:
        file.write(f'[docker]\nsocket = "{tmp_path}/engine.sock"\n')
    (found,) = wrong(machine.docker(installation.docker_socket(paths)))
    assert found.what == f"{tmp_path}/engine.sock does not exist"


def test_settings_are_judged_and_never_changed(tmp_path: Path) -> None:
    (tmp_path / "fs").mkdir()
    (tmp_path / "fs" / "protected_symlinks").write_text("0\n")
    (tmp_path / "fs" / "protected_hardlinks").write_text("1\n")
    (found,) = machine.settings(tmp_path)
    assert (found.level, found.repair) == (NOTE, None)
    assert found.fix == "sysctl -w fs.protected_symlinks=1"


def test_a_clock_that_is_years_behind_is_a_problem() -> None:
    assert [each.level for each in machine.clock(0.0)] == [PROBLEM]
    assert [each.level for each in machine.clock(1_900_000_000.0)] == [OK]


@pytest.mark.root
def test_an_upstream_that_cannot_be_reached_is_named_with_its_reason(paths: Paths) -> None:
    paths.broker_d.mkdir()
    table = '[upstream.corp]\nurl = "https://127.0.0.1:1"\nprovider = "corp"\n'
    (paths.broker_d / "upstream-corp.toml").write_text(table)
    (found,) = git_servers.upstreams(paths)
    assert found.level == PROBLEM
    assert "corp: 127.0.0.1:1: Connection refused" in found.what


@pytest.mark.root
@pytest.mark.parametrize(("mode", "level"), [(0o400, OK), (0o644, PROBLEM)])
def test_a_credential_file_that_the_broker_refuses_is_named(
    paths: Paths, mode: int, level: str
) -> None:
    token = paths.etc / "token"
    token.write_text("secret")
    token.chmod(mode)
    os.chown(token, installation.broker_of(paths), 0)
    paths.broker_d.mkdir()
    table = f'[provider.corp]\ntype = "file"\nusername = "u"\npassword_file = "{token}"\n'
    (paths.broker_d / "provider-corp.toml").write_text(table)
    (found,) = git_servers.credentials(paths)
    assert found.level == level
    assert "secret" not in found.what + found.fix


@pytest.mark.parametrize(("limit", "notes"), [(1024, 1), (installation.DESCRIPTORS, 0)])
def test_a_daemon_with_few_descriptors_is_noted(tmp_path: Path, limit: int, notes: int) -> None:
    (tmp_path / "7").mkdir()
    (tmp_path / "7" / "limits").write_text(
        "Limit                     Soft Limit           Hard Limit           Units     \n"
        f"Max open files            {limit}                65536                files     \n"
    )
    found = list(installation.few_descriptors("hostd", 7, tmp_path))
    assert [each.level for each in found] == [NOTE] * notes
    assert not list(installation.few_descriptors("hostd", 8, tmp_path))


def test_the_doctor_says_when_sandboxes_can_fill_the_disk_of_the_journals(paths: Paths) -> None:
    (paths.hostd_state / "sandboxes").mkdir()
    paths.broker_audit.parent.mkdir(parents=True)
    (found,) = wrong(installation.disk_space(paths))
    assert found.level == NOTE
    assert "the broker's journal and store and hostd's journal" in found.what
    assert found.fix == f"give {paths.hostd_state}/sandboxes a file system of its own"


def test_the_doctor_says_when_a_journals_file_system_keeps_no_space() -> None:
    (found,) = installation._keeps_no_space("broker", {"keeps_space": False})
    assert found.level == NOTE and "git stops" in found.what
    assert list(installation._keeps_no_space("broker", {"keeps_space": True})) == []
    assert list(installation._keeps_no_space("broker", {})) == []


KEY = "AQAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA="


@pytest.mark.parametrize(
    ("allow", "level", "said"),
    [
        ('allow = "any"', OK, "edge may grant every kind of rule"),
        ('allow = ["git"]', OK, "edge may grant [[git]] rules, and nothing of [[egress]]"),
        ('allow = ["egress"]', OK, "edge may grant [[egress]] rules, and nothing of [[git]]"),
        ('repos = ["up:a/*"]', NOTE, "edge may grant [[git]], [[egress]] rules: its enrolment is"),
    ],
)
def test_what_an_enrolled_host_may_grant_is_said_of_every_kind_of_rule(
    paths: Paths, allow: str, level: str, said: str
) -> None:
    paths.broker_toml.write_text("version = 1\n")
    paths.broker_d.mkdir()
    (paths.broker_d / "host-edge.toml").write_text(f'[host.edge]\nkey = "{KEY}"\n{allow}\n')
    (found,) = enrolments(paths)
    assert (found.check, found.level) == ("hosts", level)
    assert found.what.startswith(said)
    assert (level == NOTE) == ("host-edge.toml" in found.fix)


def test_a_daemon_of_another_version_is_replaced_without_an_end_of_its_sandboxes() -> None:
    (found,) = installation._wrong("hostd", {"version": "0.1.0"}, "0.2.0")
    assert (found.what, found.fix) == ("hostd is 0.1.0, hostctl is 0.2.0", "hostctl restart")
