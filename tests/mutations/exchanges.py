"""What the broker promises of one exchange, from its session to its outcome."""

from __future__ import annotations

from tests.mutations.table import Mutation

MATRIX = "tests/wire/broker/net/test_matrix.py::test_nothing_is_left_of_a_request"
PROMISES = "tests/wire/broker/net/test_promises.py"
GIT = "broker/kinds/git.py"
EXCHANGE = "broker/exchange/exchange.py"


_CANCEL = "        elif self._awaited is not None:\n"


def _cells(*cells: str) -> tuple[str, ...]:
    return tuple(f"{MATRIX}[{cell}]" for cell in cells)


EXCHANGES = (
    Mutation(
        "refusal: a sandbox is told that the server has no such repository",
        "broker/kinds/git.py",
        '        if code == "G101" and self.tier is Tier.HELPER:',
        '        if code == "G101":',
        (
            "tests/wire/broker/test_git.py::"
            "test_the_owner_alone_is_told_that_the_server_has_no_such_repository",
        ),
    ),
    # A revocation cuts what runs, and what waits for anything
    Mutation(
        "exchange: a fetch or push under way is not cut",
        EXCHANGE,
        "        if self._transfer is not None:\n            self._transfer.cut(",
        '        if self.request.name == "git" and self._transfer:\n            pass\n'
        "        elif self._transfer is not None:\n            self._transfer.cut(",
        _cells("fetch, upstream's body, revoked", "push, both bodies, rescoped"),
    ),
    Mutation(
        "exchange: a plain request under way is not cut",
        EXCHANGE,
        "        if self._transfer is not None:\n            self._transfer.cut(",
        '        if self.request.name == "http" and self._transfer:\n            pass\n'
        "        elif self._transfer is not None:\n            self._transfer.cut(",
        _cells("plain, head, revoked", "plain, upstream's body, rescoped"),
    ),
    Mutation(
        "exchange: a tunnel under way is not cut",
        EXCHANGE,
        "        if self._transfer is not None:\n            self._transfer.cut(",
        '        if self.request.name == "tunnel" and self._transfer:\n            pass\n'
        "        elif self._transfer is not None:\n            self._transfer.cut(",
        _cells("tunnel, both bodies, revoked", "tunnel, client's body, rescoped"),
    ),
    Mutation(
        "exchange: a client that resets while its body waits is not noticed",
        EXCHANGE,
        "self._why is None and not self._incoming.body_ended:\n",
        "False:\n",
        _cells("fetch, turn, client reset", "push, connection, client reset"),
    ),
    Mutation(
        "tls: only who reads hears of our end",
        "gitmoat/net/transport/tls.py",
        "        return super()._half_close()\n",
        "        return None\n",
        (
            *_cells("fetch, turn, client closed", "plain, name, client closed"),
            "tests/wire/gitmoat/net/test_tls_ends.py",
        ),
    ),
    Mutation(
        "tunnel: what a client that has ended had open is held for a silent upstream",
        "gitmoat/net/tunnel_relay.py",
        "        if self._client_ended and direction is self._up and self._close(",
        "        if False and self._close(",
        (
            *_cells("tunnel, both bodies, client closed"),
            "tests/wire/gitmoat/net/test_tunnel_relay.py",
        ),
    ),
    Mutation(
        "exchange: what was cut while it waited for its turn keeps its place",
        EXCHANGE,
        "        if ticket is not None:\n",
        "        if ticket is not None and ticket.running:\n",
        _cells("fetch, turn, revoked", "push, turn, timed out"),
    ),
    Mutation(
        "exchange: what waits for the disk is not cut",
        EXCHANGE,
        _CANCEL,
        "        elif self._awaited is not None and (self._wanted or not self._enclosed):\n",
        _cells("advertisement, disk, revoked", "push, disk, timed out"),
    ),
    Mutation(
        "exchange: what waits for a credential is not cut",
        EXCHANGE,
        _CANCEL,
        "        elif self._awaited is not None and (self._credential or not self._wanted):\n",
        _cells("advertisement, credential, revoked", "push, credential, rescoped"),
    ),
    Mutation(
        "exchange: another host that is being dialled is dialled on",
        EXCHANGE,
        "        elif self._awaited is not None:\n            self._awaited.cancel()\n",
        "",
        _cells("plain, connection, revoked", "tunnel, connection, rescoped"),
    ),
    Mutation(
        "exchange: a git server that is being dialled has no time",
        "broker/upstream/dialler.py",
        "return await dial(self._reactor, place.host, place.port, route.connect)",
        "return await dial(self._reactor, place.host, place.port, 3600)",
        _cells("fetch, connection, timed out", "push, name, timed out"),
    ),
    # Recorded before it is dialled
    Mutation(
        "exchange: egress that cannot be recorded is dialled",
        EXCHANGE,
        "self._context.journal.record(event, durable=True)",
        "record_or_log(self._context.journal, event)",
        (f"{PROMISES}::test_egress_that_cannot_be_recorded_is_not_dialled",),
    ),
    Mutation(
        "exchange: a host counts as recorded though its record failed",
        EXCHANGE,
        "        if self.request.synced_beside:\n            await",
        "        self.request.recorded(self._session)\n"
        "        if self.request.synced_beside:\n            await",
        (f"{PROMISES}::test_egress_that_cannot_be_recorded_is_not_dialled",),
    ),
    Mutation(
        "exchange: egress is dialled before its record is on disk",
        EXCHANGE,
        "self._context.journal.record(event, durable=True)",
        "self._context.journal.record(event, durable=False)",
        (f"{PROMISES}::test_egress_is_on_disk_before_its_name_is_looked_up",),
    ),
    # A POST is sent once
    Mutation(
        "exchange: a POST is repeatable",
        GIT,
        "        return isinstance(self.request, Advertise)\n",
        "        return True\n",
        (f"{PROMISES}::test_a_post_goes_up_once",),
    ),
    Mutation(
        "exchange: a POST is sent again with another credential",
        EXCHANGE,
        "new_credential, kept = self.request.repeatable, True",
        "new_credential, kept = True, True",
        (f"{PROMISES}::test_a_post_goes_up_once",),
    ),
    # A connection serves one session and one credential
    Mutation(
        "exchange: a connection serves every session",
        EXCHANGE,
        "User(self._session.id, server, credential)",
        'User("", server, credential)',
        (f"{PROMISES}::test_a_kept_connection_is_for_its_own_session",),
    ),
    Mutation(
        "exchange: a connection serves every credential",
        "broker/upstream/kept.py",
        "kept.connection.idle and kept.user.same_as(user)",
        "kept.connection.idle",
        (f"{PROMISES}::test_a_kept_connection_is_for_its_own_credential",),
    ),
    Mutation(
        "exchange: a connection to another host stays open when its server lets it",
        EXCHANGE,
        "            far.connection.close()\n",
        "            pass\n",
        (
            "tests/wire/broker/test_egress.py"
            "::test_nothing_stays_open_to_a_server_that_would_keep_the_connection",
        ),
    ),
    # A credential is freed at once
    Mutation(
        "exchange: a credential waits for the collector",
        EXCHANGE,
        "        self._entry = self._timer = self._watch = self._ticket = self._prefix = None\n"
        "        self._wanted = self._credential = None\n",
        "",
        (
            f"{PROMISES}::test_a_refused_answer_frees_the_credential",
            *_cells("fetch, head, timed out", "push, both bodies, revoked"),
        ),
    ),
    # Slots are given back once
    Mutation(
        "exchange: an egress slot is given back twice",
        EXCHANGE,
        "            self.request.leave(self._session)\n",
        "            self.request.leave(self._session)\n" * 2,
        _cells("tunnel, name, revoked", "plain, connection, rescoped"),
    ),
    Mutation(
        "exchange: a cut git request keeps its session's slot",
        EXCHANGE,
        "        self._entered = True\n",
        "        self._entered = not self.request.limits_first\n",
        _cells("fetch, head, revoked", "probe, commands, client reset"),
    ),
    Mutation(
        "exchange: a git request that ended gives its slots back again",
        EXCHANGE,
        "        finally:\n            self._leave()\n",
        "        finally:\n            self._leave()\n            self._leave()\n",
        (
            f"{PROMISES}::test_whatever_follows_an_end_gives_nothing_back_again",
            *_cells("push, both bodies, revoked"),
        ),
    ),
)
