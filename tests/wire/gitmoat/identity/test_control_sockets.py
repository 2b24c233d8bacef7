"""Control sockets: safe places only, one listener, the right server or none."""

from __future__ import annotations

import os
import socket
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from gitmoat.identity.control_socket import (
    PATH_LIMIT,
    ControlSocketAbsent,
    ControlSocketBusy,
    ControlSocketDenied,
    ControlSocketUnsafe,
    connect_control,
    listen_control,
    make_private_directory,
    peer_uid,
    remove_stale_control,
)
from tests.fakes.processes import as_uid
from tests.waiting import PATIENCE


@pytest.fixture
def run(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A short path: sockets have no room for pytest's."""
    import tempfile

    with tempfile.TemporaryDirectory(prefix="gm", dir="/tmp") as name:
        yield Path(name)


def mode_of(path: Path) -> int:
    return stat.S_IMODE(path.lstat().st_mode)


def test_a_listener_is_ours_private_and_answers(run: Path) -> None:
    path = run / "hostd.sock"
    old = os.umask(0)
    try:
        listener = listen_control(path)
    finally:
        os.umask(old)
    with listener, connect_control(path, server_uid=0) as client:
        server, _ = listener.accept()
        with server:
            assert (peer_uid(server), peer_uid(client)) == (os.geteuid(), os.geteuid())
        assert mode_of(path) == 0o600
        assert listener.getblocking() is False and client.getblocking() is True
        assert not listener.get_inheritable()


def test_a_mode_wider_than_the_umask_is_still_the_mode_asked_for(run: Path) -> None:
    old = os.umask(0o077)
    try:
        listen_control(run / "a.sock", mode=0o666).close()
    finally:
        os.umask(old)
    assert mode_of(run / "a.sock") == 0o666


def test_message_sockets_are_made_the_same_way(run: Path) -> None:
    path = run / "ctl.sock"
    with (
        listen_control(path, kind=socket.SOCK_SEQPACKET) as listener,
        connect_control(path, 0, kind=socket.SOCK_SEQPACKET) as client,
    ):
        client.send(b"one message")
        server, _ = listener.accept()
        with server:
            assert server.recv(100) == b"one message"


def test_a_stale_socket_is_replaced(run: Path) -> None:
    path = run / "hostd.sock"
    listen_control(path).close()
    assert path.is_socket()
    with listen_control(path), connect_control(path, 0):
        pass


def test_only_a_stale_socket_is_removed(run: Path) -> None:
    path = run / "a.sock"
    remove_stale_control(path)
    with listen_control(path):
        remove_stale_control(path)
        assert path.exists()
    remove_stale_control(path)
    assert not path.exists()
    remove_stale_control(run / "nowhere" / "a.sock")


def test_a_socket_somebody_answers_on_is_left_alone(run: Path) -> None:
    path = run / "hostd.sock"
    with listen_control(path) as first:
        inode = path.stat().st_ino
        with pytest.raises(ControlSocketBusy) as refused:
            listen_control(path)
        assert refused.value.code == "C104" and path.stat().st_ino == inode
        first.accept()[0].close()
        with connect_control(path, 0):
            pass


def test_a_socket_whose_backlog_is_full_is_not_taken_for_a_stale_one(run: Path) -> None:
    path = run / "hostd.sock"
    with socket.socket(socket.AF_UNIX) as busy:
        busy.bind(str(path))
        busy.listen(0)
        waiting = []
        for _ in range(2):
            client = socket.socket(socket.AF_UNIX)
            client.setblocking(False)
            client.connect_ex(str(path))
            waiting.append(client)
        with pytest.raises(ControlSocketBusy):
            listen_control(path)
        for client in waiting:
            client.close()
    assert path.is_socket()


def test_two_starts_at_once_do_not_both_win(run: Path) -> None:
    import fcntl

    folder = os.open(run, os.O_RDONLY)
    try:
        fcntl.flock(folder, fcntl.LOCK_EX)
        with pytest.raises(ControlSocketBusy):
            listen_control(run / "hostd.sock")
    finally:
        os.close(folder)
    listen_control(run / "hostd.sock").close()


@pytest.mark.parametrize("kind", ["file", "directory", "symlink", "fifo"])
def test_something_else_at_the_path_is_refused_and_kept(run: Path, kind: str) -> None:
    path = run / "hostd.sock"
    match kind:
        case "file":
            path.write_text("mine")
        case "directory":
            path.mkdir()
        case "symlink":
            path.symlink_to(run / "elsewhere")
        case _:
            os.mkfifo(path)
    before = path.lstat()
    with pytest.raises(ControlSocketUnsafe) as refused:
        listen_control(path)
    assert refused.value.code == "C101" and refused.value.fix
    assert os.path.samestat(before, path.lstat())
    with pytest.raises(ControlSocketUnsafe):
        connect_control(path, 0)


def test_a_symlinked_directory_is_refused(run: Path) -> None:
    (run / "real").mkdir(mode=0o700)
    (run / "link").symlink_to(run / "real")
    with pytest.raises(ControlSocketUnsafe):
        listen_control(run / "link" / "hostd.sock")
    assert list((run / "real").iterdir()) == []
    listen_control(run / "real" / "hostd.sock").close()
    with pytest.raises(ControlSocketUnsafe):
        connect_control(run / "link" / "hostd.sock", 0)


def test_a_symlink_further_up_is_refused_below_the_root_only(run: Path) -> None:
    (run / "real" / "run").mkdir(parents=True, mode=0o700)
    (run / "link").symlink_to(run / "real")
    path = run / "link" / "run" / "hostd.sock"
    with pytest.raises(ControlSocketUnsafe):
        listen_control(path, root=run)
    with listen_control(path, root=run / "link"), connect_control(path, 0, root=run / "link"):
        pass


@pytest.mark.parametrize("bits", [0o777, 0o770, 0o1777])
def test_a_directory_others_can_write_to_is_refused(run: Path, bits: int) -> None:
    folder = run / "open"
    folder.mkdir()
    folder.chmod(bits)
    with pytest.raises(ControlSocketUnsafe):
        listen_control(folder / "hostd.sock")
    assert list(folder.iterdir()) == [] and mode_of(folder) == bits


def test_a_parent_others_can_write_to_is_refused_unless_sticky(run: Path) -> None:
    (run / "open" / "run").mkdir(parents=True, mode=0o755)
    (run / "open").chmod(0o777)
    with pytest.raises(ControlSocketUnsafe):
        listen_control(run / "open" / "run" / "hostd.sock")
    (run / "open").chmod(0o1777)
    listen_control(run / "open" / "run" / "hostd.sock").close()


def test_a_directory_of_another_uid_is_refused(run: Path) -> None:
    folder = run / "theirs"
    folder.mkdir()
    os.chown(folder, 61003, 61003)
    for path in (folder / "hostd.sock", folder / "below" / "hostd.sock"):
        path.parent.mkdir(exist_ok=True)
        with pytest.raises(ControlSocketUnsafe):
            listen_control(path)


def test_a_socket_file_of_another_uid_is_refused(run: Path) -> None:
    path = run / "hostd.sock"
    with listen_control(path):
        os.chown(path, 61003, -1)
        with pytest.raises(ControlSocketUnsafe):
            connect_control(path, 0)
        with pytest.raises(ControlSocketUnsafe):
            listen_control(path)


def test_a_server_of_another_uid_is_refused(run: Path) -> None:
    """The path looks right, but who listens is what counts."""
    path = run / "hostd.sock"
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(path))
        os.seteuid(61003)
        try:
            listener.listen(1)  # the server's credentials are those at listen()
        finally:
            os.seteuid(0)
        with pytest.raises(ControlSocketUnsafe, match="61003"):
            connect_control(path, 0)


def test_nobody_there_is_told_apart_from_something_wrong(run: Path) -> None:
    listen_control(run / "stale.sock").close()
    for path in (run / "stale.sock", run / "none.sock", run / "no" / "such" / "dir.sock"):
        with pytest.raises(ControlSocketAbsent) as refused:
            connect_control(path, 0)
        assert refused.value.code == "C103" and refused.value.fix


def test_a_missing_directory_cannot_be_listened_in(run: Path) -> None:
    with pytest.raises(ControlSocketUnsafe):
        listen_control(run / "none" / "hostd.sock")


def test_another_user_is_denied_by_the_directory(run: Path) -> None:
    (run / "d").mkdir(mode=0o700)
    run.chmod(0o755)
    with listen_control(run / "d" / "hostd.sock"):
        with as_uid(61003), pytest.raises(ControlSocketDenied) as refused:
            connect_control(run / "d" / "hostd.sock", 0)
        assert refused.value.code == "C102"


def test_another_user_is_denied_by_the_socket(run: Path) -> None:
    run.chmod(0o755)
    with (
        listen_control(run / "hostd.sock"),
        as_uid(61003),
        pytest.raises(ControlSocketDenied),
    ):
        connect_control(run / "hostd.sock", 0)


@pytest.mark.parametrize("odd", ["hostd.sock", "/tmp/../tmp/x.sock", "/tmp//x.sock", "/tmp/x/"])
def test_odd_spellings_are_refused_not_resolved(odd: str) -> None:
    with pytest.raises(ControlSocketUnsafe):
        listen_control(odd)
    with pytest.raises(ControlSocketUnsafe):
        connect_control(odd, 0)


def test_a_path_outside_the_root_is_refused(run: Path) -> None:
    (run / "root").mkdir(mode=0o700)
    (run / "rootless").mkdir(mode=0o700)
    with pytest.raises(ControlSocketUnsafe):
        listen_control(run / "rootless" / "a.sock", root=run / "root")


def test_a_path_too_long_for_a_socket_is_refused(run: Path) -> None:
    room = PATH_LIMIT - 1 - len(str(run)) - 1
    with listen_control(run / ("a" * room)), connect_control(run / ("a" * room), 0):
        pass
    with pytest.raises(ControlSocketUnsafe, match="shorter"):
        listen_control(run / ("a" * (room + 1)))


def test_no_descriptor_is_left_behind(run: Path) -> None:
    (run / "open").mkdir()
    (run / "open").chmod(0o777)
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(3):
        listen_control(run / "a.sock").close()
        for path in (run / "open" / "a.sock", run / "open" / "b" / "a.sock", run / "none" / "a"):
            for attempt in (listen_control, lambda where: connect_control(where, 0)):
                with pytest.raises((ControlSocketUnsafe, ControlSocketAbsent)):
                    attempt(path)
        make_private_directory(run / "p" / "q", 0o700, 0, 0)
    assert len(os.listdir("/proc/self/fd")) == before


def test_a_private_directory_is_made_with_its_parents(run: Path) -> None:
    old = os.umask(0)
    try:
        make_private_directory(run / "var" / "lib" / "broker", 0o700, 61005, 61006)
    finally:
        os.umask(old)
    made = (run / "var" / "lib" / "broker").stat()
    assert (made.st_uid, made.st_gid, stat.S_IMODE(made.st_mode)) == (61005, 61006, 0o700)
    assert (mode_of(run / "var"), mode_of(run / "var" / "lib")) == (0o755, 0o755)
    make_private_directory(run / "var" / "lib" / "broker" / "audit", 0o700, 61005, 61006)
    make_private_directory(run / "var" / "lib" / "broker", 0o750, 61005, 61006)
    assert mode_of(run / "var" / "lib" / "broker") == 0o750


@pytest.mark.parametrize("trap", ["symlink", "file", "foreign", "writable", "symlinked parent"])
def test_a_private_directory_is_not_made_of_something_unsafe(run: Path, trap: str) -> None:
    target, path = run / "target", run / "d"
    target.mkdir(mode=0o700)
    match trap:
        case "symlink":
            path.symlink_to(target)
        case "file":
            path.touch()
        case "foreign":
            path.mkdir(mode=0o700)
            os.chown(path, 61003, 61003)
        case "writable":
            path.mkdir()
            path.chmod(0o777)
        case _:
            path.symlink_to(target)
            path = path / "below"
    before = (target.stat().st_mode, sorted(run.iterdir()))
    with pytest.raises(ControlSocketUnsafe):
        make_private_directory(path, 0o755, 0, 0)
    assert (target.stat().st_mode, sorted(run.iterdir())) == before
    assert list(target.iterdir()) == []


def test_the_module_imports_nothing_heavy() -> None:
    code = (
        "import sys, gitmoat.identity.control_socket, gitmoat.paths\n"
        "assert not {'attr', 'attrs', 'nacl', 'twisted', 'cryptography', 'typing'}"
        " & set(sys.modules), sorted(sys.modules)"
    )
    subprocess.run(
        [sys.executable, "-I", "-c", f"import sys; sys.path.insert(0, '.'); {code}"],
        cwd=Path(__file__).parents[4],
        check=True,
        timeout=PATIENCE,
    )
