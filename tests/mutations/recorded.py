"""What keeps the audit complete, for everybody, also on a full disk."""

from __future__ import annotations

from tests.mutations.table import Mutation

RESERVE = "tests/unit/gitmoat/audit/test_reserve.py"
EVENTS = "tests/unit/gitmoat/audit/test_events.py"
STORE = "tests/unit/broker/test_store.py"
FULL_DISKS = "tests/wire/broker/test_full_disks.py"

RECORDED = (
    Mutation(
        "audit: discovery has no space of its own on a full disk",
        "gitmoat/audit/events.py",
        'Claim.SHARE if decision == "allow" else',
        'Claim.SHARE if decision == "-" else',
        (f"{RESERVE}::test_everything_that_an_allowed_push_or_fetch_needs_is_recorded",),
    ),
    Mutation(
        "audit: everything may use the space that is kept",
        "gitmoat/audit/reserve.py",
        "            case Claim.NOTHING:\n                return _FULL\n",
        "            case Claim.NOTHING:\n                pass\n",
        (f"{RESERVE}::test_nothing_else_gets_what_is_kept",),
    ),
    Mutation(
        "audit: one sandbox may use up the space that is kept",
        "gitmoat/audit/reserve.py",
        "after > self.size // SHARES or ",
        "",
        (
            f"{RESERVE}::test_a_sandbox_that_fetches_in_a_loop_uses_its_own_share_only",
            f"{FULL_DISKS}::test_on_a_full_disk_one_sandbox_cannot_use_up_what_is_kept_for_the_others",
        ),
    ),
    Mutation(
        "audit: sandboxes use up what is kept for revocations",
        "gitmoat/audit/reserve.py",
        " or end + length + self.size // OWN > self._held",
        "",
        (f"{RESERVE}::test_all_sandboxes_together_leave_what_is_for_grants_and_revocations",),
    ),
    Mutation(
        "audit: the owner's helper uses up what is kept for revocations",
        "gitmoat/audit/events.py",
        'startswith("git ") or self.op == _HELPER:\n            return Claim.SHARE\n',
        'startswith("git ") or self.op == _HELPER:\n            return Claim.OWN\n',
        (f"{RESERVE}::test_runs_of_the_owners_helper_leave_what_is_for_the_others",),
    ),
    Mutation(
        "audit: a sandbox's end has no space on a full disk",
        "gitmoat/audit/events.py",
        '    event = "sandbox.stopped"\n    kept = Claim.OWN\n',
        '    event = "sandbox.stopped"\n',
        (f"{RESERVE}::test_everything_that_an_allowed_push_or_fetch_needs_is_recorded",),
    ),
    Mutation(
        "audit: space is promised and not taken",
        "gitmoat/audit/reserve.py",
        "            self._allocate(self._fd, end, length)\n",
        "            pass\n",
        (f"{RESERVE}::test_space_is_really_taken_and_the_file_is_not_longer_for_it",),
    ),
    Mutation(
        "audit: what was dropped is not told",
        "gitmoat/audit/journal.py",
        "            self._dropped += 1\n",
        "            pass\n",
        (f"{RESERVE}::test_what_was_not_written_is_counted_and_told_when_there_is_space",),
    ),
    Mutation(
        "status: a full disk is not noticed",
        "gitmoat/audit/journal.py",
        "not self._reserve.hold(self._head.offset) or self._is_full()",
        "False",
        (f"{FULL_DISKS}::test_on_a_full_disk_git_passes_sessions_begin_and_end_and_status_tells",),
    ),
    Mutation(
        "audit: names that are written escaped are counted as short ones",
        "gitmoat/audit/texts.py",
        "    return len(text) if text.isascii() else len(json.dumps(name(text)))\n",
        "    return len(text)\n",
        (
            "tests/unit/broker/exchange/test_denials.py"
            "::test_a_push_is_counted_with_at_least_what_its_record_takes",
        ),
    ),
    Mutation(
        "store: an end in order gives up what is kept for a full disk",
        "broker/sessions/store/sqlite.py",
        "                _give_back(file, other)\n",
        "                other.unlink()\n",
        (
            "tests/unit/broker/test_store.py"
            "::test_what_is_kept_for_a_full_disk_outlives_an_end_in_order",
            f"{FULL_DISKS}::test_a_broker_that_was_stopped_in_order_starts_on_a_full_disk",
        ),
    ),
    Mutation(
        "store: nothing is kept for ends on a full disk",
        "broker/sessions/store/sqlite.py",
        '    db.execute(f"PRAGMA user_version = {len(MIGRATIONS)}")\n    _keep_space(db)\n',
        '    db.execute(f"PRAGMA user_version = {len(MIGRATIONS)}")\n',
        (f"{FULL_DISKS}::test_on_a_full_disk_git_passes_sessions_begin_and_end_and_status_tells",),
    ),
    Mutation(
        "store: no copy is kept before a database is changed to another version",
        "broker/sessions/store/sqlite.py",
        "        _keep_copy(db, path, version)\n",
        "        pass\n",
        (f"{STORE}::test_a_store_of_each_version_before_is_taken_over_and_kept_as_it_was",),
    ),
    Mutation(
        "store: what 0.2.0 was killed at is refused",
        "broker/sessions/store/sqlite.py",
        "            if not _is_done(db, statement):\n",
        "            if True:\n",
        ("tests/unit/broker/test_store.py::test_what_0_2_0_was_killed_at_is_taken_over",),
    ),
    Mutation(
        "store: a change of version is kept half",
        "broker/sessions/store/sqlite.py",
        '    db.execute("BEGIN IMMEDIATE")\n',
        "",
        (f"{STORE}::test_a_change_of_version_is_made_whole_or_not_at_all",),
    ),
    Mutation(
        "store: an end that could not be stored is forgotten",
        "broker/sessions/sessions.py",
        '            session.running.end("S101")\n',
        '            session.running.end("S101")\n            self._unsaved.clear()\n',
        (
            "tests/unit/broker/sessions/test_sessions.py::"
            "test_an_end_that_cannot_be_stored_holds_and_is_stored_as_soon_as_it_can_be",
        ),
    ),
    Mutation(
        "audit: a name that looks like a token is left out",
        "gitmoat/audit/events.py",
        "plain if key in _WORDS else name for key",
        "plain for key",
        (f"{EVENTS}::test_a_name_that_a_policy_decided_on_is_told_whatever_it_looks_like",),
    ),
    Mutation(
        "audit: a ref that looks like a token is left out",
        "gitmoat/audit/events.py",
        "        shown = name(self.ref)\n",
        "        shown = plain(self.ref)\n",
        (f"{EVENTS}::test_a_name_that_a_policy_decided_on_is_told_whatever_it_looks_like",),
    ),
    Mutation(
        "audit: no hash of a name that was cut",
        "gitmoat/audit/events.py",
        'found if is_whole(self.ref, shown) else found | {"sha256": digest(self.ref)}',
        "found",
        (f"{EVENTS}::test_names_that_are_cut_are_told_apart_by_a_hash_of_the_whole",),
    ),
    Mutation(
        "audit: credentials stay in words",
        "gitmoat/audit/texts.py",
        "_capped(redacted(text[: limit + LONGEST]), limit)",
        "_capped(text[: limit + LONGEST], limit)",
        ("tests/unit/gitmoat/audit/test_redaction.py::test_a_planted_secret_is_in_no_line",),
    ),
    Mutation(
        "audit: one session may have written as much as it likes",
        "broker/kinds/git.py",
        "        if wait:\n            raise TooMuchToRecord",
        "        if False:\n            raise TooMuchToRecord",
        (
            "tests/wire/broker/sessions/test_session_limits.py::"
            "test_a_push_beyond_what_a_session_may_have_written_is_told_to_wait",
        ),
    ),
)
