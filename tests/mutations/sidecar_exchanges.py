"""Controls over the ends of a sidecar's exchanges, weakened in one line each."""

from __future__ import annotations

from tests.mutations.table import Mutation

_NET = "tests/wire/sidecar/net/test_net.py::test_an_exchange_ends_as_it_is_promised"

SIDECAR_EXCHANGES = (
    Mutation(
        "relay: a client that has gone is not noticed before the answer",
        "gitmoat/net/relay.py",
        "        self._incoming.on_lost(self._client_lost)\n",
        "",
        ("tests/wire/gitmoat/net/test_relay.py::test_lost_client_cuts_the_upstream",),
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
        "            self._context.pool.release("
        "link, Proof.NONE if self._is_cut else Proof.FAILED)\n",
        "            pass\n",
        (f"{_NET}[CONNECT - the broker's head - the client's connection is reset]",),
    ),
    Mutation(
        "sidecar: nobody looks whether a client is there before its request goes on",
        "sidecar/exchange.py",
        "        if self._is_cut or self._client.gone():\n",
        "        if self._is_cut:\n",
        (f"{_NET}[push - hostd, asked for a link - the client's connection is reset]",),
    ),
    Mutation(
        "sidecar: a close is taken for a half-close",
        "sidecar/port/clients.py",
        "        if self._running is not None and not self.tunnelled:\n",
        "        if False:\n",
        (f"{_NET}[refs - the broker's head - the client closes its connection]",),
    ),
    Mutation(
        "sidecar: a tunnel that the policy forbids now goes on",
        "sidecar/exchange.py",
        "        denied = [each for each in self.running if not each.still_allowed()]\n",
        "        denied = list[Exchange]()\n",
        ("tests/wire/sidecar/test_another_kind.py",),
    ),
    Mutation(
        "sidecar: with all its links in use, another host is waited for",
        "sidecar/exchange.py",
        "        if not kind.queues and pool.full(share):\n",
        "        if False:\n",
        ("tests/wire/sidecar/test_proxy_port.py",),
    ),
    Mutation(
        "sidecar: what came with a hello is kept as long as its tunnel",
        "sidecar/port/clients.py",
        '        said, self._said = self._said, b""\n',
        "        said = self._said\n",
        ("tests/wire/sidecar/test_tls_port.py",),
    ),
)
