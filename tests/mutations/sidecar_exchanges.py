"""Controls over the ends of a sidecar's exchanges, weakened in one line each."""

from __future__ import annotations

from tests.mutations.table import Mutation

_NET = "tests/wire/sidecar/net/test_net.py::test_an_exchange_ends_as_it_is_promised"

SIDECAR_EXCHANGES = (
    Mutation(
        "relay: a client that has gone is not noticed before the answer",
        "streams/relay.py",
        "        self._incoming.on_lost(self._client_lost)\n",
        "",
        (f"{_NET}[refs - the broker's head - the client's connection is reset]",),
    ),
    Mutation(
        "sidecar: a push is sent again when its link was lost",
        "sidecar/kinds/git.py",
        "    if cause is Cause.NO_ANSWER or isinstance(forward.request, Push):\n",
        "    if cause is Cause.NO_ANSWER:\n",
        (f"{_NET}[push - the broker's head - the link is lost]",),
    ),
    Mutation(
        "sidecar: a tunnel that nobody waits for keeps its link",
        "sidecar/exchange.py",
        "await self._wait(opened, link.abort)\n",
        "await self._wait(opened, opened.cancel)\n",
        (f"{_NET}[CONNECT - the broker's head - the client's connection is reset]",),
    ),
)
