"""What holds while a store has not answered, and what a store holds to."""

from __future__ import annotations

from tests.mutations.table import Mutation

LATE = "tests/wire/broker/sessions/test_late_store.py"
CONTRACT = "tests/unit/broker/test_store_contract.py"
IN_MEMORY = "broker/sessions/sessions.py"
SQLITE = "broker/sessions/store/sqlite.py"
_LOCK = "        lock = self._locks.setdefault(key, DeferredLock())\n"
_FOLLOW = (
    f"{LATE}::test_two_operations_on_one_sandbox_follow_each_other_and_nobody_waits_for_anothers",
)

STORED = (
    Mutation(
        "sessions: two operations on one sandbox interleave",
        "broker/sessions/turns.py",
        "        await lock.acquire()\n",
        "        lock = DeferredLock()\n        await lock.acquire()\n",
        _FOLLOW,
    ),
    Mutation(
        "sessions: an end that is written late undoes a renewal",
        IN_MEMORY,
        "            await self._save_end(session.id)  # written later it would undo this\n",
        "            pass\n",
        (
            "tests/unit/broker/sessions/test_sessions.py"
            "::test_an_end_that_was_not_written_does_not_undo_a_renewal",
        ),
    ),
    Mutation(
        "sessions: one sandbox's operation waits for another's",
        "broker/sessions/turns.py",
        _LOCK,
        f'        key = ("", "")\n{_LOCK}',
        _FOLLOW,
    ),
    Mutation(
        "sessions: who is refused in his turn spoils the one before",
        "broker/sessions/turns.py",
        "            if not lock.locked and self._locks.get(key) is lock:\n",
        "            if not lock.locked:\n",
        (f"{LATE}::test_who_is_refused_in_his_turn_gives_it_to_the_next_and_spoils_nobodys",),
    ),
    Mutation(
        "sessions: an activation that comes late undoes an end",
        IN_MEMORY,
        "        if session.state is State.ENDED:\n            return\n",
        "",
        (f"{LATE}::test_a_session_that_ends_while_it_is_activated_stays_ended",),
    ),
    Mutation(
        "sessions: a renewal that comes late undoes a revocation",
        IN_MEMORY,
        "        if self._over.get((host, sandbox)) is over:\n",
        "        if True:\n",
        (f"{LATE}::test_a_revocation_while_the_owner_renews_is_final",),
    ),
    Mutation(
        "sessions: what runs is cut before its end is on disk",
        IN_MEMORY,
        "        try:\n            await self._save_end(session.id)\n",
        '        session.running.end("S101")\n'
        "        try:\n            await self._save_end(session.id)\n",
        (f"{LATE}::test_an_end_is_in_memory_then_on_disk_and_then_cuts_and_waits_for_no_turn",),
    ),
    Mutation(
        "sessions: a policy for a session that ended meanwhile is answered as in force",
        "broker/sessions/grants.py",
        "            _check_lives(session)\n            return cut\n",
        "            return cut\n",
        (f"{LATE}::test_an_end_is_in_memory_then_on_disk_and_then_cuts_and_waits_for_no_turn",),
    ),
    Mutation(
        "sessions: a host that was removed meanwhile keeps its session",
        "broker/api/host_operations.py",
        "        if host.name not in context.routes.now.config.hosts:",
        "        if False:",
        (f"{LATE}::test_a_host_that_is_removed_while_it_is_granted_a_session_has_none",),
    ),
    Mutation(
        "store: an activation that comes late undoes an end",
        SQLITE,
        'cgroup = ?"\n                " WHERE id = ? AND state != \'ended\'",\n',
        'cgroup = ?"\n                " WHERE id = ?",\n',
        (f"{CONTRACT}::test_what_has_ended_is_changed_by_no_call_that_comes_later",),
    ),
    Mutation(
        "store: a renewal that comes late undoes a revocation",
        SQLITE,
        "AND sandbox = ? AND reason = ?",
        "AND sandbox = ? AND ? != ''",
        (f"{CONTRACT}::test_a_renewal_that_comes_after_a_revocation_changes_nothing",),
    ),
    Mutation(
        "store: a count that comes late takes back what was moved",
        SQLITE,
        " SET bytes = max(bytes, excluded.bytes)",
        " SET bytes = excluded.bytes",
        (f"{CONTRACT}::test_what_was_moved_only_grows",),
    ),
)
