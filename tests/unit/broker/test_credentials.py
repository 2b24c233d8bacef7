"""Where credentials come from, and the one place where they become header bytes."""

import base64
import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from nacl.public import SealedBox
from nacl.signing import SigningKey

from broker.config.tree import Tree
from broker.credentials.injection import upstream_head
from broker.credentials.providers.credential import Credential, parse_password
from broker.credentials.providers.file import FileCredentials, is_private
from broker.credentials.providers.vaulted import VaultCredentials
from broker.credentials.vault import Vault, open_vault
from broker.errors import Unavailable
from gitmoat.fault import Fault
from gitmoat.identity.secret import Secret
from gitmoat.wire.git.repository_name import parse_place, parse_repository
from gitmoat.wire.git.smarthttp import Advertise, Push, Service
from gitmoat.wire.http.framing import Chunked, NoBody

MARKER = b"hunter2-marker"
PLACE, REPOSITORY = parse_place(b"up"), parse_repository(b"acme/app.git")


def file_provider(path: Path) -> FileCredentials:
    return FileCredentials(Tree(()), path, "bot", os.geteuid(), os.getegid())


def token_file(path: Path, content: bytes = MARKER + b"\n", mode: int = 0o600) -> Path:
    path.write_bytes(content)
    path.chmod(mode)
    return path


def test_a_file_is_read_again_for_every_use(tmp_path: Path) -> None:
    provider = file_provider(token_file(tmp_path / "token"))
    assert provider.credential().password.expose() == MARKER
    token_file(tmp_path / "new", b"rotated").rename(tmp_path / "token")
    assert provider.credential().password.expose() == b"rotated"
    (tmp_path / "token").unlink()
    with pytest.raises(Unavailable) as caught:
        provider.credential()
    assert caught.value.code == "U105"


@pytest.mark.parametrize("mode", [0o644, 0o640, 0o660, 0o604, 0o700, 0o200, 0o4600])
def test_a_file_of_ours_with_another_mode_is_refused(tmp_path: Path, mode: int) -> None:
    if os.geteuid() == 0 and mode == 0o640:
        os.chown(token_file(tmp_path / "token"), 0, 12345)
    provider = file_provider(token_file(tmp_path / "token", mode=mode))
    with pytest.raises(Unavailable):
        provider.credential()


@pytest.mark.parametrize(
    ("uid", "gid", "mode", "private"),
    [
        (7, 99, 0o400, True),
        (7, 99, 0o600, True),
        (7, 7, 0o640, False),
        (0, 8, 0o440, True),
        (0, 8, 0o640, True),
        (0, 8, 0o644, False),
        (0, 8, 0o660, False),
        (0, 9, 0o640, False),
        (5, 8, 0o640, False),
    ],
)
def test_owner_and_mode_rules(uid: int, gid: int, mode: int, private: bool) -> None:
    status = os.stat_result((0o100000 | mode, 0, 0, 1, uid, gid, 0, 0, 0, 0))
    assert is_private(status, uid=7, gid=8) is private


def test_a_symlink_is_refused(tmp_path: Path) -> None:
    token_file(tmp_path / "real")
    (tmp_path / "token").symlink_to("real")
    with pytest.raises(Unavailable) as caught:
        file_provider(tmp_path / "token").credential()
    assert "symlink" in caught.value.why


@pytest.mark.parametrize("content", [b"", b"\n", b"a b", b"a\nb", b"a\x00", b"\xff", b"a" * 20000])
def test_a_file_without_one_printable_line_is_refused(tmp_path: Path, content: bytes) -> None:
    provider = file_provider(token_file(tmp_path / "token", content))
    with pytest.raises(Unavailable) as caught:
        provider.credential()
    assert content.decode("latin-1").strip()[:9] not in caught.value.why or not content.strip()


@pytest.mark.parametrize("raw", [MARKER, MARKER + b"\n", MARKER + b"\r\n"])
def test_one_line_end_is_not_part_of_the_password(raw: bytes) -> None:
    password = parse_password(raw)
    assert password is not None and password.expose() == MARKER


@pytest.fixture
def vault(tmp_path: Path) -> Iterator[Vault]:
    directory = os.open(tmp_path, os.O_RDONLY)
    yield open_vault(directory, SigningKey(bytes(32)))
    os.close(directory)


def test_the_vault_gives_back_what_was_put_in_and_keeps_it_sealed(
    vault: Vault, tmp_path: Path
) -> None:
    assert vault.add("gh", "bot", Secret(MARKER)) is False
    credential = VaultCredentials(vault, "gh").credential()
    assert (credential.username, credential.password.expose()) == ("bot", MARKER)
    sealed = (tmp_path / "gh.sealed").read_bytes()
    assert MARKER not in sealed and base64.b64encode(MARKER) not in sealed
    assert (tmp_path / "gh.sealed").stat().st_mode & 0o777 == 0o600
    assert vault.names() == ["gh"]


def test_a_rotation_replaces_the_entry(vault: Vault, tmp_path: Path) -> None:
    vault.add("gh", "bot", Secret(b"old"))
    assert vault.add("gh", "bot", Secret(b"new")) is True
    assert vault.get("gh").password.expose() == b"new"
    assert [one.name for one in tmp_path.iterdir()] == ["gh.sealed"]


def test_an_entry_under_another_name_or_key_is_refused(vault: Vault, tmp_path: Path) -> None:
    vault.add("gh", "bot", Secret(MARKER))
    os.link(tmp_path / "gh.sealed", tmp_path / "corp.sealed")
    with pytest.raises(Unavailable):
        vault.get("corp")
    stranger = open_vault(vault.directory, SigningKey(b"k" * 32))
    with pytest.raises(Unavailable):
        stranger.get("gh")
    with pytest.raises(Unavailable):
        vault.get("absent")


def test_what_was_opened_before_is_opened_anew_each_time(vault: Vault, tmp_path: Path) -> None:
    """Nothing of it is remembered: the file is read, and must be right."""
    file = tmp_path / "gh.sealed"
    vault.add("gh", "bot", Secret(b"old"))
    assert [vault.get("gh").password.expose() for _ in range(2)] == [b"old", b"old"]
    sealed = file.read_bytes()
    changed = sealed[:40] + bytes([sealed[40] ^ 1]) + sealed[41:]
    for wrong in (sealed[:-1], sealed + b"x", changed, sealed[:32], b""):
        file.write_bytes(wrong)
        with pytest.raises(Unavailable):
            vault.get("gh")
    vault.add("gh", "bot", Secret(b"new"))
    assert vault.get("gh").password.expose() == b"new"
    vault.remove("gh")
    with pytest.raises(Unavailable):
        vault.get("gh")


def test_a_key_that_was_replaced_opens_nothing_more(vault: Vault, tmp_path: Path) -> None:
    vault.add("gh", "bot", Secret(MARKER))
    vault.get("gh")
    sealed = (tmp_path / "gh.sealed").read_bytes()
    vault.use(SigningKey(b"n" * 32))
    (tmp_path / "gh.sealed").write_bytes(sealed)
    with pytest.raises(Unavailable):
        vault.get("gh")


def test_many_entries_are_all_opened(vault: Vault) -> None:
    for number in range(70):
        vault.add(f"e{number}", "bot", Secret(b"%d" % number))
    for _ in range(2):
        opened = [vault.get(f"e{number}").password.expose() for number in range(70)]
        assert opened == [b"%d" % number for number in range(70)]


def test_the_seal_is_libsodiums(vault: Vault, tmp_path: Path) -> None:
    """A vault of any version, and of any program that seals, can be opened."""
    vault.add("gh", "bot", Secret(MARKER))
    box = SealedBox(SigningKey(bytes(32)).to_curve25519_private_key())
    text = box.decrypt((tmp_path / "gh.sealed").read_bytes())
    (tmp_path / "gh.sealed").write_bytes(box.encrypt(text))
    assert vault.get("gh").password.expose() == MARKER


@pytest.mark.parametrize(
    ("name", "username"), [("../x", "bot"), ("", "bot"), ("A", "bot"), ("gh", "a:b"), ("gh", "")]
)
def test_names_that_cannot_be_kept_change_nothing(
    vault: Vault, tmp_path: Path, name: str, username: str
) -> None:
    with pytest.raises(Fault):
        vault.add(name, username, Secret(MARKER))
    assert list(tmp_path.iterdir()) == []


def test_the_head_for_an_upstream_is_made_of_constants_and_the_credential() -> None:
    request = Advertise(PLACE, REPOSITORY, Service.UPLOAD_PACK, 2)
    head = upstream_head(request, "git.example:8443", Credential("bot", Secret(MARKER)), NoBody())
    lines = head.split(b"\r\n")
    assert lines[0] == b"GET /acme/app.git/info/refs?service=git-upload-pack HTTP/1.1"
    assert b"Host: git.example:8443" in lines
    assert b"Git-Protocol: version=2" in lines
    assert b"Authorization: Basic " + base64.b64encode(b"bot:" + MARKER) in lines
    assert b"Accept-Encoding" not in head


def test_the_head_of_a_push_announces_its_body_once() -> None:
    head = upstream_head(
        Push(PLACE, REPOSITORY, 0), "git.example", Credential("bot", Secret(MARKER)), Chunked()
    )
    assert head.startswith(b"POST /acme/app.git/git-receive-pack HTTP/1.1\r\n")
    assert head.count(b"Transfer-Encoding: chunked\r\n") == 1
    assert b"Content-Type: application/x-git-receive-pack-request\r\n" in head


def switched(vault: Vault, tmp_path: Path, stop: str) -> Vault:
    """A change of keys that was cut off at a step; then the next start, with the key in place."""
    old, new = SigningKey(bytes(32)), SigningKey(b"n" * 32)
    vault.prepare(new)
    if stop == "prepared":
        return open_vault(vault.directory, old)
    if stop == "one renamed":
        (tmp_path / "a.sealed.next").rename(tmp_path / "a.sealed")
    return open_vault(vault.directory, new)


@pytest.mark.parametrize("stop", ["prepared", "key renamed", "one renamed"])
def test_a_change_of_the_vaults_key_can_be_cut_off_anywhere(
    vault: Vault, tmp_path: Path, stop: str
) -> None:
    vault.add("a", "bot", Secret(b"first"))
    vault.add("b", "bot", Secret(b"second"))
    again = switched(vault, tmp_path, stop)
    assert [again.get(name).password.expose() for name in ("a", "b")] == [b"first", b"second"]
    assert sorted(one.name for one in tmp_path.iterdir()) == ["a.sealed", "b.sealed"]


def test_an_entry_that_was_never_ours_is_left_alone(vault: Vault, tmp_path: Path) -> None:
    (tmp_path / "x.sealed").write_bytes(b"of another broker")
    new = SigningKey(b"n" * 32)
    vault.prepare(new)
    vault.use(new)
    assert (tmp_path / "x.sealed").read_bytes() == b"of another broker"
