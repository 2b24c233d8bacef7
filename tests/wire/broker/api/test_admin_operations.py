"""What root may ask of a running broker."""

import base64
import json
import time
from datetime import UTC, datetime
from typing import Any

import pytest

from broker.api.listener import EACH
from gitmoat.wire.git.pktline import FLUSH, format_data
from gitmoat.wire.git.smarthttp import Service
from gitmoat.wire.http.heads import Length
from tests.fakes.broker_scene import Scene, ask
from tests.fakes.broker_world import PASSWORD, Sidecar, post
from tests.fakes.fake_upstream import ok
from tests.fakes.reactor_tests import on_reactor

REFS = ok(Service.UPLOAD_PACK, "advertisement", format_data(b"version 2\n") + FLUSH)


@on_reactor
async def test_sessions_are_listed_and_shown_without_secrets(scene: Scene) -> None:
    await scene.world.session()
    await scene.world.session(activate=False)
    items = ask(scene, "session-ls")["items"]
    assert [(one["session"], one["state"]) for one in items] == [
        ("session-1", "active"),
        ("session-2", "closed"),
    ]
    for name in ("session-1", "sb1", "name1"):
        shown = ask(scene, "session-show", session=name)
        assert (shown["session"], shown["place"]["netns"]) == ("session-1", 77)
        assert shown["policy"]["name"] == "p"
        assert PASSWORD not in json.dumps(shown)
    assert ask(scene, "session-show", session="nobody")["error"]["code"] == "R103"


@on_reactor
async def test_a_session_is_revoked_by_any_of_its_names(scene: Scene) -> None:
    for number, name in enumerate(("session-1", "sb2", "name3"), 1):
        sidecar = await scene.world.session()
        answer = ask(scene, "session-revoke", session=name, reason="why not")
        assert answer["revoked"] == [f"session-{number}"]
        assert (await sidecar.refs()).status == 401
    by_sandbox = await scene.world.session()
    assert ask(scene, "session-revoke", sandbox="sb4")["revoked"] == ["session-4"]
    assert (await by_sandbox.refs()).status == 401
    assert ask(scene, "session-revoke", session="session-1")["error"]["code"] == "R103"
    events = scene.world.audit("session.revoked")
    assert [one["peer_uid"] for one in events] == [0] * 4
    assert events[0]["reason"] == "why not"


@on_reactor
async def test_all_sessions_are_revoked_at_once_and_their_streams_cut(scene: Scene) -> None:
    scene.upstream.on_request = lambda talk: talk.say(
        b"HTTP/1.1 200 OK\r\nContent-Type: application/x-git-upload-pack-result\r\n"
        b"Transfer-Encoding: chunked\r\n\r\n"
    )
    first, _ = await scene.world.session(), await scene.world.session()
    out, reply = first.begin("POST", *post("acme/app", "git-upload-pack"), Length(4))
    out.write(b"0000")
    out.finish()
    await reply.started
    revoked = ask(scene, "session-revoke", all=True)["revoked"]
    assert sorted(revoked) == ["session-1", "session-2"]
    await reply.done
    assert b"S101" in reply.data
    await scene.pause()
    assert scene.upstream.talks[0].lost


@on_reactor
async def test_a_credential_put_into_the_vault_is_used_after_a_reload(scene: Scene) -> None:
    scene.upstream.answers(REFS)
    sidecar = await scene.world.session()
    world = scene.world
    secret = base64.b64encode(b"vault-marker\n").decode()
    added = ask(scene, "cred-add", name="sealed", username="robot", secret_b64=secret)
    assert added == {"ok": True, "name": "sealed", "replaced": False}
    text = world.paths.broker_toml.read_text()
    text = text.replace('provider = "token"', 'provider = "sealed"')
    world.write("broker.toml", text + '[provider.sealed]\ntype = "vault"\n', 0o640)
    assert ask(scene, "reload")["providers"] == ["sealed", "token"]
    assert (await sidecar.refs()).status == 200
    expected = base64.b64encode(b"robot:vault-marker")
    assert b"Authorization: Basic " + expected in scene.upstream.heads[0]
    items = ask(scene, "cred-ls")["items"]
    assert [(one["name"], one["type"], one["username"]) for one in items] == [
        ("sealed", "vault", "robot"),
        ("token", "file", "bot"),
    ]
    assert "vault-marker" not in json.dumps(items)
    assert [one["name"] for one in world.audit("credential.stored")] == ["sealed"]


@on_reactor
async def test_a_credential_that_cannot_be_sent_is_not_kept(scene: Scene) -> None:
    for name, username, secret, code in (
        ("x", "u", "!", "C105"),
        ("x", "u", base64.b64encode(b"two\nlines").decode(), "U105"),
        ("../x", "u", "YQ==", "B104"),
        ("x", "a:b", "YQ==", "B104"),
        ("x", "", "YQ==", "C105"),
    ):
        answer = ask(scene, "cred-add", name=name, username=username, secret_b64=secret)
        assert answer["error"]["code"] == code
    assert list(scene.world.paths.broker_vault.iterdir()) == []
    assert scene.world.audit("credential.stored") == []


@on_reactor
async def test_a_removed_host_loses_its_sessions_and_its_access(scene: Scene) -> None:
    sidecar = await scene.world.session()
    host = await scene.world.host()
    assert (await host.ask("GET", "/host/health")).status == 200
    text = scene.world.paths.broker_toml.read_text().partition("[host.one]")[0]
    scene.world.write("broker.toml", text, 0o640)
    assert ask(scene, "reload")["hosts"] == []
    assert (await sidecar.refs()).status == 401
    assert (await host.ask("GET", "/host/health")).status == 404


@on_reactor
async def test_a_reload_that_fails_leaves_everything_as_it_was(scene: Scene) -> None:
    scene.upstream.answers(REFS)
    sidecar = await scene.world.session()
    scene.world.write_config("surprise = 1")
    error = ask(scene, "reload")["error"]
    assert error["code"] == "B104" and "host.one.surprise" in error["why"]
    assert (await sidecar.refs()).status == 200


@on_reactor
async def test_the_audit_head_is_told_and_kept(scene: Scene) -> None:
    head = ask(scene, "audit-head")
    assert (head["seq"], head["hash"]) == scene.world.opened.journal.head()
    for _ in range(10):
        scene.world.broker.tick()
    kept = scene.world.opened.store.load().audit_head
    assert kept is not None and (kept.seq, kept.hash) == (head["seq"], head["hash"])


@on_reactor
async def test_connections_beyond_the_limit_are_closed_but_a_host_still_gets_in(
    scene: Scene,
) -> None:
    scene.upstream.answers(REFS)
    sidecar = await scene.world.session()
    assert (await sidecar.refs()).status == 200
    scene.world.broker._listener._limit = 2
    raw = await scene.world.connect_raw(sidecar.key)
    await scene.until(lambda: raw.lost)
    assert (await sidecar.refs()).status == 200
    host = await scene.world.host()
    assert (await host.ask("GET", "/host/health")).status == 200


@on_reactor
async def test_one_session_takes_no_more_connections_than_an_honest_one_needs(scene: Scene) -> None:
    scene.upstream.answers(REFS)
    greedy, other = await scene.world.session(), await scene.world.session()
    kept = [await scene.world.connect_raw(greedy.key) for _ in range(EACH - 1)]
    listener = scene.world.broker._listener
    key = bytes(greedy.key.verify_key)
    await scene.until(lambda: listener._each[key] == EACH)
    over = await scene.world.connect_raw(greedy.key)
    await scene.until(lambda: over.lost)
    assert not any(raw.lost for raw in kept)
    assert (await other.refs()).status == (await greedy.refs()).status == 200
    kept[0].hang_up()
    await scene.until(lambda: listener._each[key] == EACH - 1)
    again = await scene.world.connect(greedy.key, Sidecar)
    assert (await again.refs()).status == 200
    for raw in kept[1:]:
        raw.hang_up()
    await scene.until(lambda: listener._each[key] == 2)


async def try_out(scene: Scene, name: str, repo: str) -> dict[str, Any]:
    line = json.dumps({"op": "cred-test", "name": name, "repo": repo}).encode()
    return await scene.world.broker.admin().answer(line, 0)


@on_reactor
async def test_a_credential_is_tried_with_one_request_and_never_shown(scene: Scene) -> None:
    scene.upstream.answers(REFS.replace(b"\r\n\r\n", b"\r\nX-OAuth-Scopes: repo\r\n\r\n", 1))
    for repo in ("up:acme/app", f"https://localhost:{scene.upstream.port}/acme/app.git"):
        said = await try_out(scene, "token", repo)
        assert (said["what"], said["code"], said["scope"]) == ("accepted", None, "repo")
        assert said["expires"] is None
        assert any("no end" in one for one in said["warnings"])
        assert PASSWORD not in json.dumps(said)
    assert len(scene.upstream.heads) == 2
    assert scene.upstream.heads[0].startswith(
        b"GET /acme/app.git/info/refs?service=git-upload-pack"
    )


@on_reactor
async def test_a_wide_token_near_its_end_is_warned_of(scene: Scene) -> None:
    secret = "ghp_" + "m" * 36
    scene.world.write("token", secret + "\n", 0o600, owner=1999999999)
    soon = datetime.fromtimestamp(time.time() + 86400, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
    header = f"\r\nGitHub-Authentication-Token-Expiration: {soon}\r\n\r\n".encode()
    scene.upstream.answers(REFS.replace(b"\r\n\r\n", header, 1))
    said = await try_out(scene, "token", "up:acme/app")
    assert said["scope"] == "GitHub classic token"
    assert len(said["warnings"]) == 2 and "ends in 2" in said["warnings"][1]
    assert secret not in json.dumps(said)


@pytest.mark.parametrize(
    ("answer", "code"),
    [
        (b"HTTP/1.1 401 X\r\nContent-Length: 0\r\n\r\n", "U102"),
        (b"HTTP/1.1 404 X\r\nContent-Length: 0\r\n\r\n", "G101"),
        (b"HTTP/1.1 302 X\r\nLocation: /\r\nContent-Length: 0\r\n\r\n", "U103"),
    ],
)
@on_reactor
async def test_what_the_server_says_of_a_credential_is_told(
    scene: Scene, answer: bytes, code: str
) -> None:
    scene.upstream.answers(answer)
    said = await try_out(scene, "token", "up:acme/app")
    assert said["ok"] and said["code"] == code and said["what"] != "accepted"


@on_reactor
async def test_the_new_name_of_a_repository_is_told(scene: Scene) -> None:
    there = b"/acme/new.git/info/refs?service=git-upload-pack"
    scene.upstream.answers(b"HTTP/1.1 301 X\r\nLocation: %b\r\nContent-Length: 0\r\n\r\n" % there)
    said = await try_out(scene, "token", "up:acme/app")
    assert (said["code"], said["what"]) == (
        "U111",
        "the git server has moved this repository: it is acme/new.git now",
    )
    assert len(scene.upstream.heads) == 1


@on_reactor
async def test_a_trial_that_cannot_be_made_says_why(scene: Scene) -> None:
    for name, repo, code in (
        ("gone", "up:acme/app", "C110"),
        ("token", "gone:acme/app", "U107"),
        ("token", "https://elsewhere.example/a", "U107"),
        ("token", "up:../x", "U107"),
    ):
        assert (await try_out(scene, name, repo))["error"]["code"] == code
    scene.world.write("token", "two lines\nhere\n", 0o600, owner=1999999999)
    refused = await try_out(scene, "token", "up:acme/app")
    assert refused["error"]["code"] == "U105" and "two lines" not in json.dumps(refused)
    assert scene.upstream.heads == []


@on_reactor
async def test_rotation_and_removal_take_effect_at_once(scene: Scene) -> None:
    scene.upstream.answers(REFS)

    def put(secret: bytes) -> None:
        encoded = base64.b64encode(secret).decode()
        assert ask(scene, "cred-add", name="v", username="bot", secret_b64=encoded)["ok"]

    put(b"first-marker")
    scene.world.write_config('[provider.v]\ntype = "vault"\n')
    text = scene.world.paths.broker_toml.read_text()
    text = text.replace('provider = "token"', 'provider = "v"')
    scene.world.write("broker.toml", text, 0o640)
    assert ask(scene, "reload")["ok"]
    sidecar = await scene.world.session()
    await sidecar.refs()
    put(b"second-marker")
    await sidecar.refs()
    used = [head.partition(b"Authorization: Basic ")[2].split()[0] for head in scene.upstream.heads]
    assert [base64.b64decode(one) for one in used] == [b"bot:first-marker", b"bot:second-marker"]
    assert ask(scene, "cred-rm", name="v") == {"ok": True, "name": "v", "removed": True}
    assert b"U105" in (await sidecar.refs()).data
    assert ask(scene, "cred-rm", name="v")["removed"] is False
    assert len(scene.upstream.heads) == 2
