"""`hostctl reload`: running sandboxes learn of git servers, and what was not taken is said."""

from __future__ import annotations

import secrets

from tests.stage.boxes import start_box
from tests.stage.gitmoat import Gitmoat
from tests.stage.repositories import ALLOWED, create_repository
from tests.stage.upstream import Upstream

LATER = """\
version = 1
name = "later"
[[git]]
id = "all"
repos = ["demo:acme/app", "later:acme/app"]
fetch = true
who = ["helper", "untrusted"]
"""


def test_an_upstream_that_was_added_is_known_to_running_and_stopped_sandboxes(
    fresh_stage: Gitmoat,
) -> None:
    stage, hostctl = fresh_stage, fresh_stage.hostctl
    (stage.paths.policies / "later.toml").write_text(LATER)
    boxes = [start_box(stage, "--policy", "later", repo=None) for _ in range(2)]
    hostctl("stop", boxes[1].name).expect_success("stop")
    later = Upstream(stage.root / "later", secrets.token_hex(16))
    later.start()
    try:
        head = create_repository(later.repositories, ALLOWED, {"a": b"later"})
        script = f'git ls-remote "{later.url}/{ALLOWED}.git" main'
        words = ("cred", "add", "later", "--stdin", "--username", later.user)
        hostctl(*words, stdin=later.password + "\n").expect_success("cred add")
        ca_file = stage.paths.etc / "later-ca.pem"
        ca_file.write_text(later.ca_file.read_text(encoding="ascii"))
        ca_file.chmod(0o644)
        server = ("--url", later.url, "--ca-file", str(ca_file), "--cred", "later")
        hostctl("upstream", "add", "later", *server).expect_success("upstream add")
        assert boxes[0].sh(script).code != 0, "nothing has told it yet"
        told = hostctl("reload").expect_success("reload").splitlines()
        assert told[1:] == [f"{boxes[0].name}: git servers changed: later"]
        assert boxes[0].sh(script).expect_success("ls-remote") == f"{head}\trefs/heads/main"
        assert boxes[0].run("git", "ls-remote", stage.url(ALLOWED)).code == 0
        assert hostctl("reload").out.splitlines() == told[:1]
        hostctl("start", boxes[1].name).expect_success("start")
        assert boxes[1].sh(script).expect_success("ls-remote") == f"{head}\trefs/heads/main"
    finally:
        later.stop()


def test_what_a_reload_does_not_take_from_hostd_toml_is_named(fresh_stage: Gitmoat) -> None:
    with fresh_stage.paths.hostd_toml.open("a", encoding="utf-8") as file:
        file.write('[watchdog]\ninterval = "20s"\n')
    told = fresh_stage.hostctl("reload").expect_success("reload")
    assert "not taken from hostd.toml: watchdog.interval" in told
