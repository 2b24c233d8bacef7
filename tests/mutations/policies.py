"""What a policy is written and read as, and what bounds it."""

from __future__ import annotations

from tests.mutations.table import Mutation

KEY_ROWS = "tests/unit/netpolicy/format/test_key_rows.py"
RECORDED = "tests/unit/netpolicy/test_recorded.py"
SESSIONS = "tests/wire/broker/sessions/test_sessions.py"

POLICIES = (
    Mutation(
        "policy: a later key is written where it says nothing",
        "netpolicy/format/key_rows.py",
        " for key, found in values if not key.is_left_out(found)}",
        " for key, found in values}",
        (f"{KEY_ROWS}::test_a_later_key_is_left_out_where_it_is_what_its_absence_means",),
    ),
    Mutation(
        "policy: a later key that is absent has the default of new policies",
        "netpolicy/format/key_rows.py",
        "return otherwise if self.absent is WRITTEN else self.absent",
        "return otherwise",
        (f"{KEY_ROWS}::test_a_later_key_is_left_out_where_it_is_what_its_absence_means",),
    ),
    Mutation(
        "policy: a later kind of rule is written without a rule",
        "netpolicy/format/writing.py",
        "if kind.always_written or kind.rules(policy)]",
        "]",
        (f"{RECORDED}::test_a_later_kind_of_rule_is_left_out_where_there_is_no_such_rule",),
    ),
    Mutation(
        "policy: the broker passes over a key that it does not know",
        "netpolicy/format/reading.py",
        "            raise UnknownKey(",
        "            UnknownKey(",
        (f"{SESSIONS}::test_a_key_of_a_later_version_is_refused_by_its_name",),
    ),
)
