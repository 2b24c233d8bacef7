"""What keeps one sandbox's code from holding up, starving or ending what others need."""

from __future__ import annotations

from tests.mutations.table import Mutation

LAUNCHER = "tests/wire/hostd/test_launcher.py"
WATCHDOG = "tests/wire/hostd/test_watchdog.py"
LIMITS = "tests/live/test_limits.py"
FORKS = "tests/wire/hostd/process/test_fork_client.py"
BESIDE = "tests/wire/hostd/test_beside_others.py"
SEALED = "tests/unit/hostd/docker/test_sealing.py"

APART = (
    Mutation(
        "hostd: a reload passes over a sandbox that is being made",
        "hostd/sandboxes.py",
        "        if self._reloads != reloads:\n",
        "        if False:\n",
        (f"{BESIDE}::test_a_sandbox_that_is_being_made_gets_a_policy_that_is_replaced_meanwhile",),
    ),
    Mutation(
        "hostd: a renewal puts a record back to what it was",
        "hostd/sandboxes.py",
        "                life, goes_on = await self._host.grants.renew(identifier, asked)\n"
        "                if stopped is None:  # what else is recorded of it "
        "may have changed meanwhile\n"
        "                    sandbox.record = evolve(sandbox.record, **life)\n",
        "                before = sandbox.record\n"
        "                life, goes_on = await self._host.grants.renew(identifier, asked)\n"
        "                if stopped is None:\n"
        "                    sandbox.record = evolve(before, **life)\n",
        (f"{BESIDE}::test_what_is_recorded_while_the_broker_renews_a_session_stays",),
    ),
    Mutation(
        "launcher: one child's pipe is read until it says something",
        "hostd/process/fork_server.py",
        "        os.set_blocking(problems, False)\n        self._poller.register(",
        "        os.read(problems, 1)\n        self._poller.register(",
        (f"{LAUNCHER}::test_a_child_that_does_not_begin_delays_its_own_answer_alone",),
    ),
    Mutation(
        "launcher: a child has all the time in the world",
        "hostd/process/children.py",
        "if each.deadline <= now]",
        "if each.deadline <= 0]",
        (f"{LAUNCHER}::test_a_child_that_does_not_begin_delays_its_own_answer_alone",),
    ),
    Mutation(
        "launcher: a child that is late is left to itself",
        "hostd/process/fork_server.py",
        "                child.kill()\n",
        "",
        (f"{LAUNCHER}::test_a_child_that_is_stopped_is_ended_and_told_of_once",),
    ),
    Mutation(
        "launcher: one sandbox may have any number of children that do not begin",
        "hostd/process/children.py",
        "return bool(cause) and same >= MOST_OF_ONE_CAUSE",
        "return False",
        (f"{LAUNCHER}::test_one_sandbox_does_not_take_all_children_and_the_others_get_theirs",),
    ),
    Mutation(
        "launcher: whatever number a child says is told to hostd",
        "hostd/process/children.py",
        "errno if errno <= _LAST_ERRNO else 0",
        "errno",
        ("tests/wire/hostd/process/test_children.py",),
    ),
    Mutation(
        "launcher: it waits until hostd reads",
        "hostd/process/fork_server.py",
        "_AT_ONCE = socket.MSG_DONTWAIT | socket.MSG_NOSIGNAL",
        "_AT_ONCE = socket.MSG_NOSIGNAL",
        (
            f"{LAUNCHER}::test_a_hostd_that_does_not_read_holds_nothing_up_but_what_it_does_not_read",
        ),
    ),
    Mutation(
        "hostd: one late answer ends the launcher",
        "hostd/process/fork_client.py",
        "        self._late.add(number)\n        self._ping()",
        "        self._late.add(number)\n        self._no_answer()",
        (f"{FORKS}::test_a_late_answer_ends_its_request_and_not_who_was_to_give_it",),
    ),
    Mutation(
        "hostd: a process that begins too late stays",
        "hostd/process/fork_client.py",
        "if isinstance(answer, Started):\n            with",
        "if not answer:\n            with",
        (f"{FORKS}::test_a_process_that_begins_when_nobody_waits_any_more_is_ended",),
    ),
    Mutation(
        "hostd: an end without its reason",
        "hostd/registry.py",
        'return evolve(self, ended={"reason": reason, "at": int(time.time())})',
        "return self",
        ("tests/unit/hostd/test_registry.py::test_an_end_is_kept_with_its_reason",),
    ),
    Mutation(
        "watchdog: to end one sandbox keeps the others waiting",
        "hostd/watchdog.py",
        """                wrong = await self._look_at(sandbox)
            if wrong is not None and sandbox.running:
                await self._freeze(sandbox, wrong)""",
        """                wrong = await self._look_at(sandbox)
                if wrong is not None and sandbox.running:
                    await self._freeze(sandbox, wrong)""",
        (f"{WATCHDOG}::test_ends_that_take_for_ever_keep_nobody_from_being_looked_at",),
    ),
    Mutation(
        "watchdog: nft that was killed ends a sandbox",
        "hostd/network/nft.py",
        """        raise Failed("R101", "nft did not list""",
        """        raise Failed("N102", "nft did not list""",
        (f"{WATCHDOG}::test_a_tool_that_fails_says_nothing_of_the_rules",),
    ),
    Mutation(
        "calls: a terminal's line discipline can be changed",
        "gitmoat/confine/profiles.py",
        "(_TIOCSTI, _TIOCSETD)),)",
        "(_TIOCSTI,)),)",
        ("tests/unit/gitmoat/confine/test_docker_profile.py",),
    ),
    Mutation(
        "calls: Docker compares bits that the kernel does not see",
        "gitmoat/confine/docker_profile.py",
        """                _compare(argument, "SCMP_CMP_MASKED_EQ", mask, value)
                for mask, value in _all_but(argument.values)""",
        """                _compare(argument, "SCMP_CMP_NE", value)
                for value in argument.values""",
        ("tests/unit/gitmoat/confine/test_docker_profile.py",),
    ),
    Mutation(
        "memory: commands are no likelier victims than daemons",
        "hostd/launcher.py",
        "_OOM_SCORE, _HOST_USER_OOM_SCORE = 500, 0",
        "_OOM_SCORE, _HOST_USER_OOM_SCORE = 0, 0",
        (f"{LIMITS}::test_where_memory_is_short_commands_end_first_and_daemons_last",),
    ),
    Mutation(
        "memory: all sandboxes together may take all of it",
        "hostd/process/cgroups.py",
        "return ResourceLimits(memory=memory - reserve,",
        "return ResourceLimits(memory=memory,",
        (
            "tests/unit/hostd/process/test_cgroups.py::test_all_sandboxes_together_leave_memory_for_the_rest",
        ),
    ),
    Mutation(
        "memory: sidecars are limited with the rooms",
        "hostd/process/cgroups.py",
        'if not name.endswith("-sidecar") or old.is_dir():',
        "if name:",
        (
            "tests/unit/hostd/process/test_cgroups.py"
            "::test_sidecars_are_beside_what_all_sandboxes_may_have_together",
        ),
    ),
    Mutation(
        "memory: shared memory has no size",
        "hostd/sandbox/bwrap.py",
        '*("--perms", "1777", "--size", _SHM_SIZE, "--tmpfs", "/dev/shm")',
        '*("--perms", "1777", "--tmpfs", "/dev/shm")',
        (f"{LIMITS}::test_shared_memory_has_a_size",),
    ),
    Mutation(
        "launcher: who is stopped counts as one that gets no processor",
        "hostd/process/children.py",
        'return state(self.pid) == "R" and now',
        'return state(self.pid) != "Z" and now',
        ("tests/wire/hostd/process/test_children.py::test_one_that_is_stopped_or_waits_has_not",),
    ),
    Mutation(
        "hostd: a fork bomb is stopped by its cgroup alone",
        "hostd/process/commands.py",
        "    most = None if pids is None else max(pids - _SPARE, pids // 2)\n",
        "    most = None\n",
        (
            "tests/live/test_limits.py"
            "::test_a_fork_bomb_stops_at_the_limit_and_the_git_gate_still_works",
        ),
    ),
    Mutation(
        "watchdog: one that ended while it waited is looked at",
        "hostd/watchdog.py",
        "if not sandbox.running:  # it ended",
        "if not sandbox:  # it ended",
        (f"{WATCHDOG}::test_one_that_ends_while_it_waits_for_its_turn_is_not_looked_at",),
    ),
    Mutation(
        "hostd: a closed descriptor is sent all the same",
        "hostd/process/fork_client.py",
        "if not all(map(_is_open, descriptors)):",
        "if not all(map(_is_open, ())):",
        (f"{FORKS}::test_a_descriptor_that_is_closed_costs_its_own_request_alone",),
    ),
    Mutation(
        "launcher: a child keeps the link",
        "hostd/process/fork_server.py",
        "                self._link.close()  # a child that is held up",
        "                pass  # a child that is held up",
        (f"{LAUNCHER}::test_its_end_is_seen_although_a_child_of_its_is_held_up",),
    ),
    Mutation(
        "hostd: who gives no sign is waited for",
        "hostd/process/fork_client.py",
        "            self._link.close()\n            self._lost()",
        "            self._child.kill()  # type: ignore[union-attr]",
        (f"{FORKS}::test_the_end_of_who_gives_no_sign_is_not_waited_for",),
    ),
    Mutation(
        "hostd: a launcher that cannot be forked is not tried again",
        "hostd/process/fork_client.py",
        "            self._again = self._reactor.callLater(_AGAIN, self._start_again)",
        "            pass",
        (f"{FORKS}::test_who_cannot_be_started_is_started_later_and_nobody_waits_for_that",),
    ),
    Mutation(
        "launcher: what it forked into a pid namespace waits on without it",
        "hostd/launcher.py",
        "        self._end_with_launcher()\n        join_cgroups(child.cgroups)",
        "        join_cgroups(child.cgroups)",
        (
            "tests/live/test_launcher_killed.py"
            "::test_with_the_launcher_goes_what_has_not_begun_in_another_pid_namespace",
        ),
    ),
    Mutation(
        "hostd: what a launcher forked and did not tell of runs on",
        "hostd/process/fork_client.py",
        "                (os.killpg if leads else os.kill)(pid, signal.SIGKILL)",
        "                (os.killpg if leads else os.kill)(pid, 0)",
        (f"{FORKS}::test_what_was_forked_and_not_told_of_ends_with_its_request",),
    ),
    Mutation(
        "launcher: more processes than the machine allows are asked for",
        "gitmoat/confine/confining.py",
        "    return min(processes, hard)",
        "    return processes",
        (f"{LAUNCHER}::test_a_command_starts_where_the_machine_allows_fewer_processes",),
    ),
    Mutation(
        "containers: one that runs without a filter is as it was admitted",
        "hostd/docker/sealing.py",
        "return found is not None and seal.filter in (None, found)",
        "return seal.filter in (None, found)",
        (f"{SEALED}::test_a_filter_that_an_earlier_version_admitted_stays_and_none_is_none",),
    ),
    Mutation(
        "attach: a container that is no victim is served",
        "hostd/docker/sealing.py",
        '>= _OOM_SCORE and not host.get("OomKillDisable")',
        ">= -1000",
        (f"{SEALED}::test_who_is_attached_ends_before_the_hosts_daemons_where_memory_is_short",),
    ),
    Mutation(
        "hostd: a full disk keeps it from starting",
        "hostd/sandbox/adoption.py",
        "            host.registry.save_if_possible(stopped)",
        "            host.registry.save(stopped)",
        (f"{BESIDE}::test_hostd_starts_on_a_disk_that_a_sandbox_has_filled",),
    ),
    Mutation(
        "hostd: a command that begins while its sandbox ends makes it one that is served",
        "hostd/sandboxes.py",
        "        if not sandbox.running:  # it was ended meanwhile",
        "        if False:  # it was ended meanwhile",
        (f"{BESIDE}::test_a_command_that_began_while_its_sandbox_ended_is_ended_and_not_recorded",),
    ),
    Mutation(
        "hostd: who asked for what is not understood hears nothing",
        "hostd/process/fork_server.py",
        "        number = number_of(data)\n",
        "        number = 0\n",
        (f"{LAUNCHER}::test_what_is_not_understood_is_refused_at_once_to_who_asked",),
    ),
    Mutation(
        "hostd: what was half removed can be stopped, and started again",
        "hostd/registry.py",
        "        if self is Step.REMOVING:\n",
        "        if False:\n",
        ("tests/unit/hostd/test_registry.py::test_what_is_being_removed_can_only_be_removed",),
    ),
    Mutation(
        "hostd: two downs take permits from each other",
        "hostd/sandboxes.py",
        "        async with self._downs:  #",
        "        if True:  #",
        (f"{BESIDE}::test_two_downs_at_once_both_end",),
    ),
    Mutation(
        "attach: what cannot be listed has no socket in it",
        "hostd/verify/attempts/file_system.py",
        "        if unlisted:\n",
        "        if False:\n",
        (
            "tests/unit/hostd/verify/attempts/test_file_system.py"
            "::test_a_directory_that_can_be_searched_and_not_listed_counts_as_a_way_out",
        ),
    ),
    Mutation(
        "watchdog: what nobody foresaw says nothing of the rules",
        "hostd/watchdog.py",
        "        except Exception as problem:  # noqa: BLE001 - an",
        "        except Failed as problem:  # an",
        (f"{WATCHDOG}::test_a_look_that_fails_as_nobody_foresaw_is_taken_again_but_not_for_ever",),
    ),
    Mutation(
        "watchdog: rules that are not ASCII are not compared",
        "hostd/network/nft.py",
        'decode("utf-8", "replace")',
        'decode("ascii")',
        (f"{WATCHDOG}::test_a_change_ends_its_access_in_the_next_round",),
    ),
    Mutation(
        "containers: a new version's filter is expected of those that run",
        "hostd/docker/containers.py",
        "self._seal(sandbox, sandbox.container.filter)",
        "self._seal(sandbox, filter_digest(self.seccomp))",
        (f"{BESIDE}::test_a_new_version_expects_the_filter_that_a_container_was_admitted_with",),
    ),
    Mutation(
        "hostd: a group is signalled after its leader has ended",
        "hostd/process/handle.py",
        "if self.status is None and alive(self.pidfd):",
        "if self.status is None:",
        (
            "tests/unit/hostd/process/test_handle.py"
            "::test_the_group_of_one_that_has_ended_may_be_somebody_elses",
        ),
    ),
    Mutation(
        "activation: what was not tried is said not to hold",
        "hostd/sidecars/serving.py",
        "if result.outcome is None:",
        "if False:",
        (f"{BESIDE}::test_a_protection_that_was_not_tried_is_not_said_not_to_hold",),
    ),
)
