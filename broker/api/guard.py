"""The one place where what went wrong for a host, or in a report, becomes a reply."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from twisted.internet.defer import Deferred
from twisted.logger import Logger
from twisted.python.failure import Failure

from broker.exchange.refusals import Reply, json_reply
from broker.sessions.store.interface import StoreFailed
from gitmoat.codes import CODES
from gitmoat.fault import Fault
from gitmoat.net.http.ends import Incoming
from gitmoat.shape import Misshapen
from gitmoat.wire.malformed import Malformed

log = Logger()


def send(incoming: Incoming, reply: Reply) -> None:
    incoming.reply(reply.status, reply.headers, reply.body)


def guarded(
    incoming: Incoming, act: Callable[[bytes], Awaitable[None] | None]
) -> Callable[[bytes], None]:
    """`act`, with every expected failure of it answered."""

    async def run(data: bytes) -> None:
        try:
            awaited = act(data)
            if awaited is not None:
                await awaited
        except Fault as problem:
            told = {key: text for key, text in problem.mapping().items() if text}
            send(incoming, json_reply(CODES[problem.code].control, told))
        except Malformed as malformed:
            _fail(incoming, malformed.status, "G104", malformed.what)
        except Misshapen as error:
            _fail(incoming, 400, "G104", str(error))
        except StoreFailed as error:
            log.error("the store failed: {what}", what=str(error))
            _fail(incoming, 503, "B103", "the broker's store cannot be written")

    def broken(failure: Failure) -> None:
        """A fault of ours ends this one request, and shows in the log."""
        log.failure("a host's or a session's request failed", failure)
        incoming.abort()

    def begin(data: bytes) -> None:
        Deferred.fromCoroutine(run(data)).addErrback(broken)

    return begin


def _fail(incoming: Incoming, status: int, code: str, what: str) -> None:
    send(incoming, json_reply(status, {"code": code, "what": what}))
