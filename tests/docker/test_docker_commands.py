"""`hostctl run --image`: commands, exit codes, files and lives, in images with and without bash."""

from __future__ import annotations

import os
import pty
import subprocess
from pathlib import Path

import pytest

from hostctl.setup.daemons import clean_environment
from tests.docker.engines import TestEngine, image
from tests.stage.boxes import Box, MakeBox
from tests.stage.command import command
from tests.stage.gitmoat import Gitmoat
from tests.stage.repositories import ALLOWED, refs
from tests.waiting import PATIENCE, ends_with_its_test, eventually

PUSH = (
    'git checkout -q -b "$1" && echo more > more.txt && git add more.txt &&'
    ' git commit -q -m More && git push -q origin "$1" && git rev-parse HEAD'
)


@pytest.fixture(scope="module")
def box(make_shared_box: MakeBox) -> Box:
    return make_shared_box("--agent", "--push", "agent/**", "--image", image("debian"))


@pytest.mark.parametrize("name", ["debian", "busybox", "hostile"])
def test_git_clones_and_pushes_in_an_image_with_nothing_of_ours(
    stage: Gitmoat, engine: TestEngine, name: str
) -> None:
    inside = engine.docker(
        "run", "--rm", "--network=none", "--entrypoint=/bin/ls", image(name), "/"
    )
    assert "run" not in inside.split(), "the image has no directory of ours to begin with"
    branch = f"agent/in-{name}"
    script = f"command -v python3 python && exit 9; test -e evil-ran && exit 8; {PUSH}"
    ran = stage.hostctl(
        *("run", "--rm", "--agent", "--image", image(name), "--repo", stage.url(ALLOWED)),
        *("--push", "agent/**", "--", "sh", "-c", script, "test", branch),
    )
    commit = ran.expect_success("clone and push").splitlines()[-1]
    assert refs(stage)[f"refs/heads/{branch}"] == commit


def test_an_images_own_git_configuration_counts_but_for_what_is_ours(make_box: MakeBox) -> None:
    box = make_box("--image", image("hostile"), repo=None)
    url, config = f"{box.stage.upstream.url}/a/b", "/etc/gitconfig"
    for script in ("git", "env -u GIT_CONFIG_SYSTEM git"):
        led = box.sh(f'{script} ls-remote --get-url "$1"', url).out
        assert led.startswith("http://127.0.0.1:419/localhost:"), script
        assert box.sh(f"{script} config init.defaultBranch").out == "theirs\n"
        assert box.sh(f"{script} config user.name").out == "Gitmoat sandbox\n"
        assert box.sh(f"{script} config --get-all credential.helper").out == "\n"
        assert box.sh(f"{script} config core.hooksPath").out == ""
    assert box.sh(f"cat {config}").out == "[include]\n\tpath = /run/gitmoat/gitconfig\n"


def test_what_is_not_allowed_is_refused_in_a_container_too(box: Box) -> None:
    ran = box.sh("cd /workspace && git push origin HEAD:refs/heads/other")
    assert ran.code == 1
    assert "G201" in ran.err


@pytest.mark.parametrize(
    ("words", "code"),
    [(("true",), 0), (("sh", "-c", "exit 7"), 7), (("sh", "-c", "kill -9 $$"), 137),
     (("no-such-program",), 127), (("/etc/passwd",), 126)],
)  # fmt: skip
def test_exit_codes_are_dockers(box: Box, words: tuple[str, ...], code: int) -> None:
    assert box.run(*words).code == code


def test_an_image_that_is_not_here_is_125_and_nothing_is_left(
    stage: Gitmoat, engine: TestEngine
) -> None:
    before = engine.docker("ps", "-aq").split()
    ran = stage.hostctl("run", "--image", "example.com/no/such:1", "--", "true")
    assert ran.code == 125
    assert "R114" in ran.err
    assert "docker pull example.com/no/such:1" in ran.err
    assert sorted(engine.docker("ps", "-aq").split()) == sorted(before)


def test_the_gate_pushes_for_a_command_that_may_not(stage: Gitmoat, make_box: MakeBox) -> None:
    box = make_box("--push", "ci/**", "--image", image("busybox"))
    script = "cd /workspace && git checkout -q -b ci/docker && git commit -q --allow-empty -m One"
    box.sh(script).expect_success("git commit")
    assert box.sh("cd /workspace && git ls-remote origin").code != 0
    box.git("push", "origin", "ci/docker").expect_success("the gate's push")
    commit = box.sh("cd /workspace && git rev-parse HEAD").expect_success("rev-parse")
    assert refs(stage)["refs/heads/ci/docker"] == commit


def test_a_detached_command_keeps_its_output_and_its_files_survive_a_stop(
    stage: Gitmoat, engine: TestEngine
) -> None:
    script = "echo out; echo err >&2; echo kept > /workspace/kept; sleep 600"
    words = ("--name", "dk-life", "--image", image("debian"))
    stage.hostctl("run", "-d", *words, "--", "sh", "-c", script).expect_success("run -d")
    box = Box(stage, "dk-life")
    try:
        eventually(
            lambda: stage.hostctl("logs", "dk-life").out.split() == ["out", "err"], "its output"
        )
        container = box.inspect()["container"]
        stage.hostctl("stop", "dk-life").expect_success("stop")
        assert engine.try_docker("inspect", container).returncode != 0
        assert stage.hostctl("exec", "dk-life", "--", "true").code == 125
        stage.hostctl("start", "dk-life").expect_success("start")
        assert box.run("cat", "/workspace/kept").out == "kept\n"
        assert box.inspect()["container"] != container
    finally:
        box.remove()
    assert engine.docker("ps", "-aq", "--filter", "name=gitmoat-").count("dk-life") == 0


@pytest.mark.parametrize("name", ["debian", "busybox"])
def test_files_are_copied_in_and_out(make_box: MakeBox, tmp_path: Path, name: str) -> None:
    box = make_box("--image", image(name), repo=None)
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "file").write_text("carried\n")
    copy = box.stage.hostctl
    copy("cp", str(tmp_path / "in"), f"{box.name}:/workspace").expect_success("cp in")
    copy("cp", f"{box.name}:in", str(tmp_path / "out")).expect_success("cp out")
    assert (tmp_path / "out" / "file").read_text() == "carried\n"
    assert copy("cp", f"{box.name}:nothing", str(tmp_path / "none")).code == 4


def test_a_terminal_is_a_terminal(stage: Gitmoat) -> None:
    ours, theirs = pty.openpty()
    hostctl = command(stage.root)
    words = ("run", "--rm", "-it", "--image", image("busybox"), "--", "sh", "-c")
    script = 'test -t 0 && test -t 1 && test -t 2 && test "$TERM" = vt220 && exit 42'
    process = subprocess.Popen(
        [*hostctl, *words, script],
        stdin=theirs, stdout=theirs, stderr=theirs,
        env={**clean_environment(), "TERM": "vt220"}, start_new_session=True,
    )  # fmt: skip
    os.close(theirs)
    try:
        code = ends_with_its_test(process).wait(PATIENCE)
        assert code == 42, os.read(ours, 4096)
    finally:
        os.close(ours)


def test_a_work_directory_is_the_workspace(stage: Gitmoat, tmp_path: Path) -> None:
    directory = tmp_path / "work"
    directory.mkdir()
    os.chown(directory, 12345, 12345)
    words = ("run", "--rm", "--workdir", str(directory), "--image", image("debian"))
    stage.hostctl(*words, "--", "sh", "-c", "echo mine > made").expect_success("run --workdir")
    assert (directory / "made").stat().st_uid == 12345


def test_limits_are_the_containers(stage: Gitmoat, engine: TestEngine, make_box: MakeBox) -> None:
    box = make_box("--image", image("debian"), "--memory", "64m", "--pids", "32", repo=None)
    ran = box.run("sh", "-c", "head -c 200m /dev/zero | tail >/dev/null")
    assert ran.code != 0, "a command that takes more memory than it may is killed"
    assert box.run("true").code == 0, "and the sandbox goes on"
    host = engine.inspect(box.inspect()["container"])["HostConfig"]
    assert (host["Memory"], host["PidsLimit"]) == (64 << 20, 32)
