"""Controls of the broker that keep one sandbox from another, weakened in one line each."""

from __future__ import annotations

from tests.mutations.table import Mutation

LIMITS = "tests/wire/broker/sessions/test_session_limits.py"
CUTTING = "tests/wire/broker/test_cutting.py"
RUNNING = "tests/unit/broker/sessions/test_running.py"
SESSIONS = "tests/unit/broker/sessions/test_sessions.py"
BUDGET = "tests/unit/broker/sessions/test_session_limits.py"
GOVERNOR = "tests/unit/broker/upstream/test_limiter.py"

BETWEEN = (
    Mutation(
        "broker: a push of many refs is decided at once",
        "broker/exchange/decisions.py",
        "        if begin:\n            yield None\n",
        "",
        (
            "tests/wire/broker/net/test_promises.py"
            "::test_others_have_their_turn_while_a_push_of_many_refs_is_decided",
        ),
    ),
    Mutation(
        "broker: a push has as many refs as it likes",
        "broker/kinds/push.py",
        "CommandsReader(policy.limits.push_refs)",
        "CommandsReader(1 << 20)",
        (
            "tests/wire/broker/test_push.py::test_what_git_may_send_and_we_never_serve_is_told_per_ref",
        ),
    ),
    Mutation(
        "broker: the new name of a repository is told to whom it is denied",
        "broker/kinds/git.py",
        '        hint = "" if denied else f"use',
        '        hint = f"use',
        ("tests/wire/broker/test_git.py::test_a_new_name_that_another_tier_may_see_is_not_told",),
    ),
    Mutation(
        "broker: a request over its rate waits without end",
        "broker/sessions/session_limits.py",
        "        if wait > LONGEST_WAIT:\n",
        "        if False:\n",
        (f"{BUDGET}::test_what_would_wait_too_long_is_refused_and_takes_nothing",),
    ),
    Mutation(
        "broker: a request that waited does not count",
        "broker/sessions/session_limits.py",
        "        bucket.spend()\n",
        "        bucket.spend(0.0 if wait else 1.0)\n",
        (f"{BUDGET}::test_requests_beyond_the_burst_wait_each_behind_the_other",),
    ),
    Mutation(
        "broker: an error of a repository is held against its upstream",
        "broker/upstream/limiters.py",
        "(tier, server.config.name, repository))",
        "(tier, server.config.name))",
        (f"{LIMITS}::test_a_repository_that_fails_for_one_sandbox_closes_no_door_for_another",),
    ),
    Mutation(
        "broker: a repository that fails for one session is closed for all",
        "broker/sessions/sessions.py",
        "    breakers: RepositoryBreakers = field(factory=RepositoryBreakers)\n",
        "    breakers: RepositoryBreakers = RepositoryBreakers()\n",
        (f"{LIMITS}::test_a_repository_that_fails_for_one_sandbox_closes_no_door_for_another",),
    ),
    Mutation(
        "broker: a connection that is dropped is held against the upstream",
        "broker/upstream/limiters.py",
        'self._session.breakers.failed(self._key, self._all.now(), "U101")',
        "self.unreachable()",
        (
            f"{LIMITS}::test_connections_that_are_dropped_for_what_one_sandbox_sent"
            "_are_its_own_failures",
        ),
    ),
    Mutation(
        "broker: one credential rests at all upstreams",
        "broker/upstream/limiters.py",
        "key = server.config.name, server.config.provider",
        'key = "", server.config.provider',
        ("tests/unit/broker/upstream/test_limiters.py",),
    ),
    Mutation(
        "broker: whoever is told to rest rests all",
        "broker/upstream/limiter.py",
        "if others or _none_left(head):",
        "if True:",
        (
            f"{GOVERNOR}::test_a_rest_is_everybodys_when_two_were_told"
            "_and_one_provokes_it_for_itself_only",
        ),
    ),
    Mutation(
        "broker: who breaks off a try takes everybody's turn",
        "broker/upstream/limiter.py",
        "            self._tried[asker] = now + self._pause\n",
        "            self._until = now + self._pause\n",
        (f"{GOVERNOR}::test_who_tries_and_breaks_off_takes_nobody_elses_turn",),
    ),
    Mutation(
        "limits: a shared rate has no shares",
        "gitmoat/limits/shares.py",
        "return min(until_upper, self._over(asker, now))",
        "return 0.0",
        (
            "tests/unit/gitmoat/limits/test_shares.py::test_who_takes_all_it_can_leaves_another_its_share",
        ),
    ),
    Mutation(
        "broker: one sandbox may have every operation",
        "broker/sessions/admission.py",
        "Slots(given.operations, each=half)",
        "Slots(given.operations)",
        ("tests/unit/broker/sessions/test_admission.py::test_a_sandbox_never_has_all_operations",),
    ),
    Mutation(
        "broker: a fault in one cut keeps the others from being cut",
        "broker/sessions/running.py",
        "except Exception:  # noqa: BLE001 - a fault in one of them leaves the others to be cut",
        "except KeyError:",
        (f"{RUNNING}::test_a_fault_in_one_keeps_none_of_the_others_from_being_cut",),
    ),
    Mutation(
        "broker: what was cut may still dial",
        "broker/sessions/running.py",
        "        if not self.live:\n",
        "        if False:\n",
        (f"{RUNNING}::test_what_was_cut_or_has_ended_opens_nothing",),
    ),
    Mutation(
        "broker: another policy leaves git requests that are under way",
        "broker/exchange/kind.py",
        'return verdict.code if isinstance(verdict, Deny) else ""',
        'return ""',
        (f"{CUTTING}::test_whatever_runs_is_cut_by_every_end",),
    ),
    Mutation(
        "broker: another policy leaves pushes to refs that it denies",
        "broker/kinds/push.py",
        "            return pushed.code\n",
        '            return ""\n',
        (f"{CUTTING}::test_a_push_under_way_to_a_ref_that_is_denied_now_is_cut_and_told",),
    ),
    Mutation(
        "broker: commands are decided by the policy of the request's beginning",
        "broker/exchange/exchange.py",
        "before, self._policy = self._policy, policy",
        "before = self._policy",
        (f"{CUTTING}::test_commands_that_come_after_another_policy_are_decided_by_it",),
    ),
    Mutation(
        "broker: an end leaves what runs",
        "broker/sessions/sessions.py",
        '            session.running.end("S101")\n',
        "            pass\n",
        (f"{CUTTING}::test_whatever_runs_is_cut_by_every_end",),
    ),
    Mutation(
        "broker: a new session brings new bytes",
        "broker/sessions/sessions.py",
        "        session.moved = self._moved(stored.host, stored.sandbox)\n",
        "",
        (f"{SESSIONS}::test_bytes_to_other_hosts_are_counted_over_all_sessions_of_a_sandbox",),
    ),
    Mutation(
        "broker: bytes to other hosts are forgotten with the process",
        "broker/sessions/store/sqlite.py",
        "SELECT usage.session, usage.bytes, coalesce(egress_usage.bytes, 0) FROM usage",
        "SELECT usage.session, usage.bytes, 0 FROM usage",
        (f"{SESSIONS}::test_what_an_ended_session_moved_is_on_disk_with_its_end",),
    ),
    Mutation(
        "broker: an upstream may slice its answer as finely as it likes",
        "broker/kinds/git_answers.py",
        "        self.too_fine = self._lines > self._most\n",
        "",
        (
            "tests/unit/broker/kinds/test_git_answers.py"
            "::test_an_answer_that_is_sliced_finely_without_end_is_ended_between_two_lines",
        ),
    ),
    Mutation(
        "streams: an answer may come in single bytes",
        "gitmoat/net/http/client_end.py",
        "        if self._framing > FRAMING + self._carried // 2:\n",
        "        if False:\n",
        (
            "tests/wire/gitmoat/net/http/test_client_end.py"
            "::test_an_answer_in_chunks_of_single_bytes_is_not_read_for_ever",
        ),
    ),
    Mutation(
        "streams: a turn reads as much of what takes long",
        "gitmoat/net/transport/descriptor.py",
        "            self.size = max(LEAST, self.size // 4)\n",
        "            pass\n",
        (
            "tests/unit/gitmoat/net/test_appetite.py"
            "::test_a_long_turn_is_followed_by_shorter_ones_and_never_by_none",
        ),
    ),
    Mutation(
        "streams: every dial looks its name up by itself",
        "gitmoat/net/transport/dialling.py",
        "    if key in _asking:\n",
        "    if False:\n",
        (
            "tests/wire/gitmoat/net/transport/test_dialling.py"
            "::test_a_name_is_looked_up_once_at_a_time_however_many_ask",
        ),
    ),
    Mutation(
        "streams: a lookup that fails closes its name for ever",
        "gitmoat/net/transport/dialling.py",
        "    asking.addBoth(_answered, key)\n",
        "    asking.addCallbacks(_answered, lambda _: None, callbackArgs=(key,))\n",
        (
            "tests/wire/gitmoat/net/transport/test_dialling.py"
            "::test_a_lookup_that_fails_is_told_and_the_next_one_asks_again",
        ),
    ),
    Mutation(
        "broker: an end that cannot be stored keeps other sessions alive",
        "broker/sessions/grants.py",
        "        for session, reason in self._sessions.overdue():\n",
        "        for session, reason in self._sessions.overdue()[:1]:\n",
        (
            "tests/wire/broker/sessions/test_sessions.py"
            "::test_an_end_that_cannot_be_stored_keeps_no_other_session_alive",
        ),
    ),
    Mutation(
        "broker: every 401 has a credential asked for anew",
        "broker/credentials/providers/cache.py",
        "        if self._drops.take(key, self._now()):\n",
        "        if False:\n",
        (
            "tests/unit/broker/credentials/providers/test_cache.py"
            "::test_who_has_it_refused_again_and_again_does_not_have_it_asked_for_each_time",
        ),
    ),
    Mutation(
        "broker: a credential is taken for what was cut",
        "broker/credentials/providers/making.py",
        "        return Permitted(self._made(name, config, others))\n",
        "        return self._made(name, config, others)\n",
        (f"{RUNNING}::test_no_provider_gives_a_credential_for_what_was_cut",),
    ),
    Mutation(
        "broker: what was cut uses a connection that is kept",
        "broker/upstream/kept.py",
        "        permit.check()\n        oldest",
        "        oldest",
        (f"{RUNNING}::test_what_was_cut_or_has_ended_opens_nothing",),
    ),
    Mutation(
        "broker: a helper that fails is run for every request",
        "broker/credentials/providers/cache.py",
        "        if failed is not None and self._now() < failed.until:\n",
        "        if False:\n",
        (
            "tests/unit/broker/credentials/providers/test_cache.py"
            "::test_who_asks_again_and_again_for_what_fails_does_not_have_it_asked_for_each_time",
        ),
    ),
    Mutation(
        "broker: tokens that GitHub denies are asked for without end",
        "broker/credentials/providers/github_app.py",
        "        if denials.wait(self._now()):\n",
        "        if False:\n",
        (
            "tests/wire/broker/credentials/providers/test_github_app.py"
            "::test_a_session_that_asks_for_what_github_denies_does_not_use_up_the_apps_rate",
        ),
    ),
    Mutation(
        "broker: a compressed request unpacks to any multiple",
        "broker/kinds/git.py",
        "min(REQUEST_MAX, _UNPACKED + UNPACKED_TIMES * octets)",
        "REQUEST_MAX",
        (
            "tests/wire/broker/test_git.py"
            "::test_a_compressed_request_does_not_unpack_to_a_multiple_that_git_never_makes",
        ),
    ),
    Mutation(
        "broker: who leaves takes a name's addresses from all who wait for them",
        "broker/upstream/resolving.py",
        "if not question.waiting and question.asking is not None:",
        "if question.asking is not None:",
        (
            "tests/wire/broker/test_egress.py"
            "::test_who_leaves_takes_no_name_from_another_who_asks_for_it",
        ),
    ),
)
