"""What is over is gone at once, with the credential it held, and waits for no collector."""

import gc
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from gitmoat.wire.git.smarthttp import Service
from tests.fakes.broker_scene import Scene
from tests.fakes.broker_world import PACK_HEAD, commands, post
from tests.fakes.fake_upstream import ok
from tests.fakes.reactor_tests import on_reactor

_OURS = (
    "broker.",
    "gitmoat.net.relay",
    "gitmoat.net.http.incoming",
    "gitmoat.net.http.outgoing",
    "gitmoat.identity.secret",
)
_DIALLED = "broker.upstream.dialler."  # a connection is made once for many requests


class _Ring:
    def __init__(self) -> None:
        self.own = self


@contextmanager
def _left_over() -> Iterator[list[str]]:
    """The kinds of things that only the collector found, once the block has ended."""
    found: list[str] = []
    gc.collect()
    gc.disable()
    gc.set_debug(gc.DEBUG_SAVEALL)
    try:
        yield found
        gc.collect()
    finally:
        gc.set_debug(0)
        gc.enable()
        kinds = (type(each) for each in gc.garbage)
        found += sorted({f"{kind.__module__}.{kind.__qualname__}" for kind in kinds})
        gc.garbage.clear()


def _of_ours(found: list[str]) -> list[str]:
    ours = [name for name in found if name.startswith(_OURS)]
    return [name for name in ours if not name.startswith(_DIALLED)]


@on_reactor
async def test_a_request_that_is_over_is_freed_without_the_collector(scene: Scene) -> None:
    scene.upstream.answers(ok(Service.UPLOAD_PACK, "advertisement", b"0000"))
    sidecar = await scene.world.session()
    await sidecar.refs()
    with _left_over() as found:
        assert (await sidecar.refs()).status == 200
        _Ring()
        await scene.pause()
    assert [name for name in found if name.endswith("_Ring")], "the collector sees what is left"
    assert _of_ours(found) == []


@on_reactor
async def test_so_is_one_that_was_refused_and_a_push(scene: Scene) -> None:
    scene.upstream.answers(ok(Service.RECEIVE_PACK, "result", b"000eunpack ok\n0000"))
    sidecar = await scene.world.session()
    await sidecar.refs()
    with _left_over() as found:
        await sidecar.refs(repo="other/secret")
        await sidecar.push(commands("refs/heads/agent/x") + PACK_HEAD)
        await scene.pause()
    assert _of_ours(found) == []


_CHUNKED = (
    b"HTTP/1.1 200 OK\r\nContent-Type: application/x-git-upload-pack-result\r\n"
    b"Transfer-Encoding: chunked\r\n\r\n"
)


@pytest.mark.parametrize("said", [b"no HTTP at all\r\n\r\n", _CHUNKED + b"4\r\n0000\r\nzz\r\n"])
@on_reactor
async def test_so_is_one_whose_answer_cannot_be_read(scene: Scene, said: bytes) -> None:
    scene.upstream.answers(ok(Service.UPLOAD_PACK, "advertisement", b"0000"))
    sidecar = await scene.world.session()
    await sidecar.refs()
    scene.upstream.answers(said)
    with _left_over() as found:
        await sidecar.fetch()
        await scene.pause()
    assert _of_ours(found) == []


@on_reactor
async def test_so_is_one_whose_own_body_cannot_be_read(scene: Scene) -> None:
    scene.upstream.answers(ok(Service.UPLOAD_PACK, "advertisement", b"0000"))
    sidecar = await scene.world.session()
    await sidecar.refs()
    target, headers = post("acme/app", "git-upload-pack")
    with _left_over() as found:
        packed = [*headers, (b"Content-Encoding", b"gzip")]
        assert (await sidecar.ask("POST", target, packed, b"no gzip at all")).status == 400
        await scene.pause()
    assert [name for name in _of_ours(found) if "listener" not in name] == []
