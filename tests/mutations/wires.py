"""Controls over names and over what is sent on, weakened in one line each."""

from __future__ import annotations

from tests.mutations.table import BROKER_GIT, BROKER_PUSH, GATE, SIDECAR_DECIDES, Mutation

DEMO = "tests/unit/hostctl/demo/test_demo_checks.py"
BROKER_FILES = "tests/cli/test_broker_files.py"
ONE_SOURCE = "tests/unit/test_one_source.py"

RELAY = "tests/wire/gitmoat/net/test_relay.py"
TUNNEL = "tests/wire/gitmoat/net/test_tunnel_relay.py"
BROKER_CLIENT = "tests/wire/hostd/broker_link/test_broker_client.py"
SENT_ONCE = (
    "tests/wire/sidecar/test_git_ports.py::test_a_fetch_is_tried_twice_at_most_and_a_push_once"
)
READS_PUSHES = "tests/unit/gitmoat/wire/git/test_receivepack.py"
BEHIND = f"{BROKER_PUSH}::test_what_is_behind_the_commands_is_a_pack_or_nothing_goes_upstream"
NAMES = "tests/unit/netpolicy/patterns/test_forgenames.py"

WIRES = (
    Mutation(
        "policy: a wildcard takes in wikis",
        "netpolicy/patterns/matchers.py",
        "    return owners is not None and _path_matches(owners, found.owner)\n",
        "    return _plain_match(pattern, subject)\n",
        (NAMES, GATE, SIDECAR_DECIDES),
    ),
    Mutation(
        "policy: a wiki is not denied with its repository",
        "netpolicy/patterns/matchers.py",
        "        names = denied_with(repository.text.lower())\n",
        "        names = (repository.text.lower(),)\n",
        (NAMES, GATE),
    ),
    Mutation(
        "policy: a second name of a repository is not denied with it",
        "netpolicy/patterns/forgenames.py",
        "    fronts = [name for view in views for name in _fronts(view)]\n",
        "    fronts = list(views)\n",
        (NAMES,),
    ),
    Mutation(
        "policy: names in front of a repository come off once only",
        "netpolicy/patterns/forgenames.py",
        "    for _ in range(_STACKED):\n",
        "    for _ in range(1):\n",
        (NAMES,),
    ),
    Mutation(
        "policy: a wildcard behind Gerrit's sign takes in further options",
        "netpolicy/patterns/forgenames.py",
        '    return _options(ref).count(",") <= _options(pattern).count(",")\n',
        "    return True\n",
        (NAMES,),
    ),
    Mutation(
        "ceiling: a wildcard covers wikis",
        "netpolicy/git_rules/options.py",
        "    return owners is not None and covers_path(owners, found.owner)\n",
        "    return _covers(wide, narrow)\n",
        (NAMES,),
    ),
    Mutation(
        "policy: a wildcard takes in magic refs",
        "netpolicy/patterns/forgenames.py",
        '    if _namespace(pattern) != namespace or ("%" in ref and "%" not in pattern):\n',
        "    if False:\n",
        (NAMES,),
    ),
    Mutation(
        "push: anything may follow the commands",
        "gitmoat/wire/git/receivepack.py",
        "        elif not any(known.startswith(head) for known in _PACK_HEADS):\n",
        "        elif False:\n",
        (READS_PUSHES, BEHIND),
    ),
    Mutation(
        "egress: a request carries whatever header it likes",
        "gitmoat/wire/http/proxying.py",
        "    known = [(name, value) for name, value in headers if _may_be_asked(name)]\n",
        "    known = headers\n",
        ("tests/unit/gitmoat/wire/http/test_proxying.py",),
    ),
    Mutation(
        "dns: too many questions on a connection take the answers along",
        "sidecar/egress/dns_listener.py",
        "        transport.loseWriteConnection()\n",
        "        transport.abortConnection()\n",
        ("tests/wire/sidecar/test_dns_conversations.py",),
    ),
    Mutation(
        "sidecar: its log has no bound",
        "sidecar/logs.py",
        "        if credit.take(now()):\n",
        "        if False:\n",
        ("tests/unit/sidecar/test_logs.py",),
    ),
    Mutation(
        "sidecar: every request for another host reaches the broker",
        "sidecar/exchange.py",
        "        if wait:\n",
        "        if False:\n",
        ("tests/wire/sidecar/test_proxy_port.py",),
    ),
    Mutation(
        "push: anything may follow deletions",
        "gitmoat/wire/git/receivepack.py",
        "            if head:\n",
        "            if False:\n",
        (READS_PUSHES,),
    ),
    Mutation(
        "sidecar: a push that may have been taken is sent again",
        "sidecar/kinds/git.py",
        "    if cause is Cause.NO_ANSWER or isinstance(forward.request, Push):\n",
        "    if cause is Cause.NO_ANSWER:\n",
        (SENT_ONCE,),
    ),
    Mutation(
        "client: a connection that broke has taken nothing",
        "gitmoat/net/http/client_end.py",
        "                raise _Failed(Cause.LOST)\n",
        "                raise _Failed(Cause.NOT_TAKEN)\n",
        (SENT_ONCE, f"{BROKER_CLIENT}::test_what_a_broker_may_have_done_is_not_asked_again"),
    ),
    Mutation(
        "relay: one that nobody waits for any more goes on",
        "gitmoat/net/relay.py",
        '    def _cancelled(self, _: "Deferred[Outcome]") -> None:\n        self._close()\n',
        '    def _cancelled(self, _: "Deferred[Outcome]") -> None:\n        pass\n',
        (f"{RELAY}::test_one_who_awaits_the_outcome_and_is_cancelled_leaves_nothing_open",),
    ),
    Mutation(
        "tunnel: one that nobody waits for any more goes on",
        "gitmoat/net/tunnel_relay.py",
        '    def _cancelled(self, _: "Deferred[Ended]") -> None:\n        self._close()\n',
        '    def _cancelled(self, _: "Deferred[Ended]") -> None:\n        pass\n',
        (f"{TUNNEL}::test_one_who_awaits_its_end_and_is_cancelled_leaves_nothing_open",),
    ),
    Mutation(
        "relay: what was cut before it starts is sent all the same",
        "gitmoat/net/relay.py",
        "        if self._over:\n            return self._done\n",
        "",
        (f"{RELAY}::test_what_is_cut_before_it_starts_sends_nothing",),
    ),
    Mutation(
        "stages: what one stage stops goes on",
        "gitmoat/net/stages.py",
        "            why, passed = why or passed.why, passed.pieces\n",
        "            passed = passed.pieces\n",
        (f"{RELAY}::test_a_stage_may_end_an_answer_after_some_of_a_piece",),
    ),
    Mutation(
        "stages: an answer of an announced length is ended by words of ours",
        "gitmoat/net/relay.py",
        "self._down is None or not self._open_ended:\n",
        "self._down is None:\n",
        (f"{RELAY}::test_an_answer_of_an_announced_length_is_ended_by_no_words",),
    ),
    Mutation(
        "hostd: whatever came of a request, it is sent again",
        "hostd/broker_link/broker_client.py",
        "                    if problem.why.cause is not Cause.NOT_TAKEN:\n",
        "                    if False:\n",
        (f"{BROKER_CLIENT}::test_what_a_broker_may_have_done_is_not_asked_again",),
    ),
    Mutation(
        "broker: a POST is sent again on another connection",
        "broker/exchange/exchange.py",
        "return far.reused and self.request.repeatable and",
        "return far.reused and",
        (f"{BROKER_GIT}::test_a_post_on_a_connection_that_was_kept_is_not_repeated_either",),
    ),
    Mutation(
        "broker: an upstream that is silent is asked twice",
        "broker/exchange/exchange.py",
        "    {Cause.NO_ANSWER, ",
        "    {",
        (
            "tests/wire/broker/test_stalls.py"
            "::test_a_kept_connection_that_is_silent_is_not_asked_twice",
        ),
    ),
    Mutation(
        "http: a request has two Hosts",
        "gitmoat/wire/http/heads.py",
        '_ONCE: Final = (b"host", *_FRAMING, b"expect", b"connection")',
        '_ONCE: Final = (*_FRAMING, b"expect", b"connection")',
        ("tests/smuggling/test_sidecar.py::test_form_is_refused_and_reaches_nobody[two Hosts]",),
    ),
    Mutation(
        "http: an Upgrade that is ignored hides other options of Connection",
        "gitmoat/wire/http/heads.py",
        "    left = [each for each in options if each not in _UPGRADE]\n",
        '    left = [each for each in options if each in (b"keep-alive", b"close")]\n',
        (
            "tests/smuggling/test_sidecar.py"
            "::test_form_is_refused_and_reaches_nobody[Connection naming headers]",
        ),
    ),
    Mutation(
        "receivepack: a name with control characters is reported",
        "gitmoat/wire/git/receivepack.py",
        "        if _REPORTABLE.fullmatch(text) is None:\n",
        "        if len(text) > 60_000:\n",
        (
            "tests/unit/gitmoat/wire/git/test_receivepack.py"
            "::test_a_name_that_no_report_may_carry_is_malformed",
        ),
    ),
    Mutation(
        "smarthttp: a repository's name may have an endpoint inside",
        "gitmoat/wire/git/repository_name.py",
        " or _ENDPOINT.search(text)",
        "",
        (
            "tests/unit/gitmoat/wire/git/test_smarthttp.py"
            "::test_what_a_server_could_read_as_an_endpoint_is_no_repository",
        ),
    ),
    Mutation(
        "sidecar: every host may be tunnelled to",
        "sidecar/kinds/egress.py",
        "    if isinstance(verdict, EgressAllow):\n        return Allow(request)\n",
        "    return Allow(request)\n",
        (f"{ONE_SOURCE}::test_the_sidecars_ports_say_what_the_policy_says",),
    ),
    Mutation(
        "dns: every name has an address",
        "sidecar/egress/dns_answers.py",
        "        if not ways_to(self._scope.policy, name, self._scope.upstreams.names):\n",
        "        if False:\n",
        (f"{ONE_SOURCE}::test_dns_knows_a_name_exactly_if_some_connection_to_it_is_allowed",),
    ),
    Mutation(
        "cred: the terminal shows a secret that is typed",
        "hostctl/terminal/questions.py",
        "    hidden = [*before[:3], before[3] & ~termios.ECHO, *before[4:]]\n",
        "    hidden = list(before)\n",
        (f"{BROKER_FILES}::test_a_terminal_is_asked_for_the_secret_and_does_not_show_it",),
    ),
    Mutation(
        "doctor: the socket of a daemon that cannot work is removed",
        "hostctl/doctor/installation.py",
        '        if status["pid"] is not None:\n',
        '        if status["healthy"]:\n',
        (
            "tests/live/test_starting_and_stopping.py::"
            "test_while_a_journal_cannot_be_written_status_says_so_and_doctor_keeps_the_socket",
        ),
    ),
    # What `make demo` and `hostctl demo` promise to look at
    Mutation(
        "demo: main may have moved",
        "hostctl/demo/agent_mode.py",
        '    if stage.upstream_ref("refs/heads/main") != stage.head:\n',
        "    if False:\n",
        (
            f"{DEMO}::test_push_to_main_must_be_refused_with_our_reason_before_the_upstream_hears_of_it",
        ),
    ),
    Mutation(
        "demo: forbidden and unknown may differ",
        "hostctl/demo/agent_mode.py",
        "    if said[0] != said[1]:\n",
        "    if False:\n",
        (f"{DEMO}::test_forbidden_and_unknown_must_look_the_same",),
    ),
    Mutation(
        "demo: the scan for the password need not find its canary",
        "hostctl/demo/isolation.py",
        '        if not answer["seen"]["canary"]:\n',
        "        if False:\n",
        (f"{DEMO}::test_the_password_must_not_be_found_by_a_scan_that_works",),
    ),
)
