"""Controls weakened in one line each, and the tests that must notice.

`before` stands exactly once in the file; a control that was rewritten takes its mutation along.
"""

from __future__ import annotations

from attrs import frozen

NFT = "netpolicy/nftables.py"
RULES_LOAD = "tests/live/test_nft_ruleset_loads.py"
REACH = f"{RULES_LOAD}::test_each_uid_reaches_its_own_ports_only"
OUTSIDE = f"{RULES_LOAD}::test_outside_addresses_fail_at_once"
SQUATTER = f"{RULES_LOAD}::test_a_squatter_on_a_sidecar_port_gets_no_connection"
PEERS = "tests/wire/gitmoat/identity/test_peer_attestation.py"
SIDECAR_DECIDES = "tests/unit/sidecar/test_git_kind.py"
GATE = "tests/unit/broker/exchange/test_decisions.py"
JOURNAL = "tests/unit/gitmoat/audit/test_journal.py"
BROKER_GIT = "tests/wire/broker/test_git.py"
BROKER_PUSH = "tests/wire/broker/test_push.py"
CONFINED = "tests/live/test_sandbox_confinement.py"
UNRULED = "tests/faults/test_rules_not_loaded.py::test_a_sandbox_without_its_rules_is_never_made"
CHANGED = (
    "tests/faults/test_rules_changed.py"
    "::test_a_sandbox_whose_network_was_changed_is_stopped_and_says_so"
)
HOSTD_KILLED = "tests/faults/test_hostd_killed.py"
SIDECAR_FAULTS = "tests/faults/test_sidecar_faults.py"
CLIENTS = "tests/faults/test_parallel_clients.py"
UIDS = "tests/faults/test_uids_and_peers.py"
SESSIONS = "tests/wire/broker/sessions/test_sessions.py"
SESSIONS_ON_DISK = "tests/unit/broker/sessions/test_sessions.py"
TRICKS = "tests/adversary/test_object_tricks.py"


@frozen
class Mutation:
    name: str
    file: str
    before: str
    after: str
    tests: tuple[str, ...]


MUTATIONS = (
    # The rules of the network namespace
    Mutation(
        "nft: anybody reaches the helper's port",
        NFT,
        'f"ip daddr 127.0.0.1 tcp dport {GIT_HELPER} meta skuid {uids.helper} accept"',
        'f"ip daddr 127.0.0.1 tcp dport {GIT_HELPER} accept"',
        (REACH,),
    ),
    Mutation(
        "nft: anybody reaches the untrusted port",
        NFT,
        'f"ip daddr 127.0.0.1 tcp dport {GIT_UNTRUSTED} {untrusted}"',
        'f"ip daddr 127.0.0.1 tcp dport {GIT_UNTRUSTED} accept"',
        (REACH,),
    ),
    Mutation(
        "nft: untrusted code's own servers may be on any port",
        NFT,
        'own = f"tcp dport != @sidecar_ports {untrusted}"',
        'own = f"{untrusted}"',
        (REACH,),
    ),
    Mutation(
        "nft: what is not allowed is dropped in silence",
        NFT,
        'return [f"tcp sport @sidecar_ports {_SQUAT}", *listeners, own, _RESET, _REFUSE]',
        'return [f"tcp sport @sidecar_ports {_SQUAT}", *listeners, own]',
        (REACH,),
    ),
    Mutation(
        "nft: a squatter's SYN passes",
        NFT,
        'return [f"tcp sport @sidecar_ports {_SQUAT}", *listeners, own, _RESET, _REFUSE]',
        "return [*listeners, own, _RESET, _REFUSE]",
        ("tests/live/test_nft_source_ports.py",),
    ),
    Mutation(
        "nft: anybody answers from a sidecar's port",
        NFT,
        '_block("chain lo_synack", f"meta skuid {uids.sidecar} accept", _SQUAT)',
        '_block("chain lo_synack", "accept", _SQUAT)',
        (SQUATTER,),
    ),
    Mutation(
        "nft: an interface that appears can be used",
        NFT,
        """_hook("output", 'oifname "lo" goto lo_out', 'counter name "not_lo"')""",
        """_hook("output", 'oifname "lo" goto lo_out', "accept")""",
        (f"{RULES_LOAD}::test_an_interface_that_appears_is_dead_in_both_directions",),
    ),
    # Who is at the other end
    Mutation(
        "credential socket: any uid",
        "gitmoat/identity/peer.py",
        "    if uid not in uids:\n",
        "    if False:\n",
        (f"{PEERS}::test_another_uid_is_refused_and_named",),
    ),
    Mutation(
        "credential socket: any cgroup",
        "gitmoat/identity/peer.py",
        "if cgroups is not None and cgroup not in cgroups:",
        "if False:",
        (
            f"{PEERS}::test_the_cgroup_must_be_an_expected_one",
            f"{UIDS}::test_the_helpers_uid_in_another_cgroup_is_refused_and_recorded",
        ),
    ),
    Mutation(
        "credential socket: the dead are served",
        "gitmoat/identity/peer.py",
        "        if _exited(pidfd):\n",
        "        if False:\n",
        (f"{PEERS}::test_a_zombie_is_refused",),
    ),
    # The sidecar's decision
    Mutation(
        "sidecar: every tier is the helper",
        "sidecar/kinds/git.py",
        "verdict = decide_repository(scope.policy, upstream.name, repository, tier, fold)",
        "verdict = decide_repository(scope.policy, upstream.name, repository, Tier.HELPER, fold)",
        (SIDECAR_DECIDES,),
    ),
    Mutation(
        "sidecar: any token will do",
        "sidecar/kinds/git.py",
        "if token is None or not scope.accepts(located.scoped, token):",
        "if token is None:",
        (SIDECAR_DECIDES,),
    ),
    Mutation(
        "sidecar: every repository is in scope",
        "sidecar/kinds/git.py",
        "return None if isinstance(verdict, PolicyDeny) else Located(upstream, repository)",
        "return Located(upstream, repository)",
        (SIDECAR_DECIDES,),
    ),
    # The broker's decision
    Mutation(
        "broker: every tier is the helper",
        "broker/exchange/decisions.py",
        "where = (asked.policy, upstream.name, asked.request.repository, asked.tier)",
        "where = (asked.policy, upstream.name, asked.request.repository, Tier.HELPER)",
        (GATE, f"{BROKER_GIT}::test_the_tier_is_decided_again"),
    ),
    Mutation(
        "broker: every repository may be fetched",
        "broker/exchange/decisions.py",
        "return decide_fetch(*where, upstream.case_insensitive)",
        'return Allow("any")',
        (GATE,),
    ),
    Mutation(
        "broker: every ref may be pushed",
        "broker/kinds/push.py",
        "        if isinstance(pushed, PushDenied):\n            reasons = ",
        "        if False:\n            reasons = ",
        (f"{BROKER_PUSH}::test_a_push_outside_the_grant_is_refused_before_any_byte_goes_upstream",),
    ),
    Mutation(
        "broker: a session may ask before it is activated",
        "broker/exchange/decisions.py",
        'return Deny("S102", "the session was not activated")',
        "return None",
        (
            GATE,
            "tests/wire/broker/sessions/test_sessions.py::test_a_grant_is_closed_until_it_is_activated",
        ),
    ),
    Mutation(
        "broker: a new grant undoes a revocation",
        "broker/sessions/grants.py",
        "        if over is not None:\n",
        "        if False:\n",
        (
            "tests/live/test_revocation.py::test_a_killed_sidecar_does_not_bring_a_revoked_session_back",
        ),
    ),
    Mutation(
        "broker: redirects are an answer like others",
        "broker/kinds/git_responses.py",
        "if head.status != 200:",
        "if head.status >= 400:",
        ("tests/unit/broker/kinds/test_git_responses.py",),
    ),
    Mutation(
        "broker: whatever the upstream's text says goes to the terminal",
        "broker/kinds/git_stages.py",
        "        passed = (self._filter.feed(data),)\n",
        "        self._filter.feed(data)\n        passed = (data,)\n",
        (f"{BROKER_GIT}::test_escapes_in_progress_text_do_not_reach_the_terminal",),
    ),
    Mutation(
        "sidecar: what arrived as Authorization goes on",
        "sidecar/kinds/git.py",
        "        *headers_of(request),\n        *framing_headers(asked.framing),\n    ]",
        '        *headers_of(request),\n        (b"Authorization", b"Basic x"),\n    ]',
        (SIDECAR_DECIDES,),
    ),
    # The audit
    Mutation(
        "audit: a record need not be on disk",
        "gitmoat/audit/journal.py",
        "            if durable:\n                self._sync(self._fd)\n",
        "            if durable:\n                pass\n",
        (f"{JOURNAL}::test_a_durable_record_is_on_disk_before_it_returns",),
    ),
    Mutation(
        "audit: what could not be recorded happens all the same",
        "broker/exchange/exchange.py",
        "await self._until(self._context.recorder.record(event))",
        "self._context.recorder.record(event).addErrback(lambda failure: None)",
        (f"{BROKER_GIT}::test_nothing_is_allowed_while_the_audit_cannot_be_written",),
    ),
    Mutation(
        "audit: a push need not be recorded",
        "broker/exchange/recording.py",
        "            self._journal.record(event, durable=False)\n",
        "            pass\n",
        (f"{BROKER_PUSH}::test_the_record_of_a_push_is_on_disk_before_the_upstream_hears_of_it",),
    ),
    Mutation(
        "audit: records that wait together are not synced",
        "gitmoat/audit/journal.py",
        "        return partial(self._sync, self._fd)\n",
        "        return lambda: None\n",
        (f"{BROKER_GIT}::test_nothing_is_allowed_while_the_audit_cannot_be_written",),
    ),
    # Confinement
    Mutation(
        "confine: inherited descriptors stay open",
        "gitmoat/confine/linux.py",
        "    for descriptor in sorted(set(kept)):\n",
        "    return\n    for descriptor in sorted(set(kept)):\n",
        (f"{CONFINED}::test_a_command_holds_its_three_descriptors_only",),
    ),
    Mutation(
        "confine: no system-call filter",
        "gitmoat/confine/confining.py",
        "    if confinement.seccomp is not None:\n",
        "    if False:\n",
        (f"{CONFINED}::test_a_command_has_a_numeric_uid_of_its_own_and_no_privilege",),
    ),
    Mutation(
        "confine: new privileges can be had",
        "gitmoat/confine/confining.py",
        "    linux.no_new_privileges()\n",
        "    pass\n",
        (f"{CONFINED}::test_a_command_has_a_numeric_uid_of_its_own_and_no_privilege",),
    ),
    Mutation(
        "confine: the broker writes where it likes",
        "gitmoat/confine/confining.py",
        "        writable=(state,),\n",
        "        writable=None,\n",
        ("tests/wire/broker/test_confinement.py::test_it_can_do_its_work_and_nothing_else",),
    ),
    # The git gate
    Mutation(
        "gate: objects of the workspace are taken as they are",
        "hostd/gate/transfer.py",
        '"index-pack", "--stdin", "--strict", "--fix-thin"',
        '"index-pack", "--stdin", "--fix-thin"',
        (f"{TRICKS}::test_an_ill_formed_object_is_not_pushed[a tree entry .git]",),
    ),
    Mutation(
        "gate: the workspace may send without end",
        "hostd/gate/git_processes.py",
        "return await self._stream(sender, stdin, receiver, limit, stalls)",
        "return await self._stream(sender, stdin, receiver, None, stalls)",
        (
            "tests/adversary/test_pack_streams.py"
            "::test_more_than_the_policy_allows_is_refused_before_the_upstream_hears_of_it",
        ),
    ),
    Mutation(
        "gate: a content receiver is taken for a failed one",
        "hostd/gate/pack_relay.py",
        "return Relayed(self.octets, End.COMPLETE) if left else self",
        "return self",
        ("tests/wire/hostd/gate/test_pack_relay.py",),
    ),
    # hostd
    Mutation(
        "hostd: probes are not judged",
        "hostd/sidecars/serving.py",
        "        if not result.ok:\n",
        "        if False:\n",
        (f"{UNRULED}[losing a rule]", f"{UNRULED}[letting everybody in]"),
    ),
    Mutation(
        "hostd: an interface is no reason not to start",
        "hostd/sidecars/serving.py",
        "    if found.interfaces:\n",
        "    if False:\n",
        (f"{UNRULED}[leaving an interface]",),
    ),
    Mutation(
        "hostd: a setting is no reason not to start",
        "hostd/sidecars/serving.py",
        "    if found.sysctls:\n",
        "    if False:\n",
        (f"{UNRULED}[opening low ports, again and again]",),
    ),
    Mutation(
        "hostd: changed rules are nobody's business",
        "hostd/watchdog.py",
        "!= sandbox.record.rules:",
        "== b'':",
        (f"{CHANGED}[widened]",),
    ),
    Mutation(
        "hostd: a sidecar that hangs is left alone",
        "hostd/watchdog.py",
        "            sandbox.sidecar.check()\n",
        "            pass\n",
        (f"{SIDECAR_FAULTS}::test_a_sidecar_that_hangs_is_replaced_and_git_does_not_hang_with_it",),
    ),
    Mutation(
        "hostd: what was half made is adopted",
        "hostd/sandbox/adoption.py",
        "    if record.step in (Step.SERVED, Step.PREPARED):\n",
        "    if record.step in (Step.SERVED, Step.PREPARED, Step.WORKSPACE):\n",
        (
            f"{HOSTD_KILLED}::test_a_sandbox_that_was_half_made_is_gone_and_the_others_go_on[workspace]",
        ),
    ),
    Mutation(
        "hostd: a client that went away gets its sandbox all the same",
        "hostd/api/admin.py",
        "        if self._gone:\n            raise",
        "        if False:\n            raise",
        (f"{CLIENTS}::test_a_client_killed_before_its_command_starts_leaves_no_sandbox",),
    ),
    Mutation(
        "hostd: two operations on one sandbox at once",
        "hostd/sandboxes.py",
        "return self._turns.setdefault(identifier, DeferredLock())",
        "return DeferredLock()",
        (f"{CLIENTS}::test_of_several_removals_one_removes_and_the_others_say_that_it_is_gone",),
    ),
    Mutation(
        "hostd: uids of running processes are given out",
        "hostd/sandbox/uids.py",
        "    busy = {uids.index_of(uid) for uid in running_uids(ours)}\n",
        "    busy: set[int | None] = set()\n",
        (f"{UIDS}::test_uids_of_a_running_process_are_passed_over",),
    ),
    Mutation(
        "show: hostd.toml shows any directory of the host",
        "hostd/config.py",
        "    if not any(plain.is_relative_to(place) for place in _SHOWN):\n",
        "    if False:\n",
        ("tests/unit/hostd/test_config.py",),
    ),
    Mutation(
        "show: a link leads out of what may be shown",
        "hostd/sandbox/bwrap.py",
        "        if not Path(path).is_dir() or os.path.realpath(path) != path:\n",
        "        if not Path(path).is_dir():\n",
        ("tests/live/test_shown_directories.py::test_a_link_or_nothing_is_not_shown",),
    ),
    # Sessions, keys and credentials
    Mutation(
        "broker: a host grants above its ceiling",
        "broker/sessions/grants.py",
        "        if above is not None:\n",
        "        if False:\n",
        (f"{SESSIONS}::test_a_scope_above_the_hosts_ceiling_is_refused",),
    ),
    Mutation(
        "broker: a session lasts longer than its host's enrolment says",
        "broker/sessions/grants.py",
        "    shorter = shortened(policy, ceiling)\n",
        "    shorter = policy\n",
        (f"{SESSIONS}::test_a_session_lasts_no_longer_than_its_hosts_enrolment_says",),
    ),
    Mutation(
        "broker: an earlier clock is believed",
        "broker/sessions/clocks.py",
        "        return late if late > _SLACK else 0\n",
        "        return 0\n",
        (f"{SESSIONS}::test_nothing_is_granted_while_the_clock_is_earlier_than_it_was",),
    ),
    Mutation(
        "broker: a reboot forgets revocations",
        "broker/sessions/sessions.py",
        "        self._over = dict(contents.over)\n",
        "",
        (f"{SESSIONS}::test_a_revocation_outlives_a_reboot",),
    ),
    Mutation(
        "broker: an extension goes past max_ttl",
        "broker/sessions/grants.py",
        "        if seconds > most:\n",
        "        if False:\n",
        (f"{SESSIONS}::test_no_extension_goes_past_the_policys_max_ttl",),
    ),
    Mutation(
        "broker: a renewal passes over a lowered ceiling",
        "broker/sessions/grants.py",
        "        if (above := exceeded(session.policy, ceiling)) is not None:\n",
        "        if (above := exceeded(session.policy, ceiling)) and False:\n",
        (f"{SESSIONS}::test_a_renewal_keeps_to_what_the_enrolment_says_by_now",),
    ),
    Mutation(
        "hostctl: work that was pushed nowhere is removed unseen",
        "hostctl/commands/rm.py",
        "            if not args.force:\n",
        "            if False:\n",
        ("tests/live/test_rescue.py::test_a_sandbox_with_such_work_is_removed_by_force_alone",),
    ),
    Mutation(
        "hostctl: a stash is removed unseen",
        "hostctl/copy/unpushed.py",
        "  set -- --branches --glob='refs/stas[h]' --not --remotes\n  git -C",
        "  set -- --branches --not --remotes\n  git -C",
        (
            "tests/live/test_rescue.py"
            "::test_a_stash_and_repositories_of_one_name_are_saved_and_a_damaged_one_is_named",
        ),
    ),
    Mutation(
        "broker: one session may take every connection",
        "broker/api/listener.py",
        "        if self._each[asker.key] > EACH and",
        "        if False and",
        (
            "tests/wire/broker/api/test_admin_operations.py::"
            "test_one_session_takes_no_more_connections_than_an_honest_one_needs",
        ),
    ),
    Mutation(
        "broker: a revoked session is renewed",
        "broker/sessions/grants.py",
        "        if over is not None and not is_renewable(over):\n",
        "        if False:\n",
        (f"{SESSIONS}::test_a_revocation_and_a_used_up_quota_are_final",),
    ),
    Mutation(
        "broker: a renewal brings a new quota",
        "broker/sessions/sessions.py",
        "        own += [over.moved for over",
        "        own += [NOTHING for over",
        (f"{SESSIONS_ON_DISK}::test_a_renewed_sandbox_gets_another_session_and_its_quota_goes_on",),
    ),
    Mutation(
        "broker: a host renews another host's sandbox",
        "broker/sessions/sessions.py",
        "return [one for one in self.living() if one.is_of(host, sandbox)]",
        "return [one for one in self.living() if one.stored.sandbox == sandbox]",
        (f"{SESSIONS}::test_a_host_renews_and_sees_its_own_sandboxes_only",),
    ),
    Mutation(
        "broker: an App's token may be wider than asked",
        "broker/credentials/providers/github_api.py",
        "    if not narrow:\n",
        "    if False:\n",
        (
            "tests/unit/broker/credentials/providers/test_github_api.py::test_a_token_for_more_than_was_asked_is_not_used",
        ),
    ),
    Mutation(
        "broker: every push may bring workflow files",
        "netpolicy/decision.py",
        "if rule.push is not None and rule.push.workflows",
        "if rule.push is not None",
        (
            "tests/wire/broker/credentials/providers/test_github_app.py"
            "::test_a_token_is_minted_for_the_repository_and_for_reading_or_writing",
        ),
    ),
    Mutation(
        "sidecar: erase changes nothing",
        "sidecar/credential/tokens.py",
        "        self._live.pop(repository, None)\n",
        "        return\n",
        (
            "tests/wire/sidecar/credential/test_credential_socket.py"
            "::test_erase_ends_every_token_of_its_repository",
        ),
    ),
)
