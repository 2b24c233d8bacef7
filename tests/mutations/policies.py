"""What a policy is written and read as, and what bounds it."""

from __future__ import annotations

from tests.mutations.table import Mutation

KEY_ROWS = "tests/unit/netpolicy/format/test_key_rows.py"
RECORDED = "tests/unit/netpolicy/test_recorded.py"
SESSIONS = "tests/wire/broker/sessions/test_sessions.py"

CEILING = "tests/unit/netpolicy/test_ceiling.py"
ENROLMENTS = "tests/unit/broker/config/test_files.py"

INDEX = "tests/unit/netpolicy/test_index.py"

POLICIES = (
    Mutation(
        "index: a URL may have a password",
        "netpolicy/presets/index_url.py",
        "    if user is not None:\n",
        "    if False:\n",
        (INDEX,),
    ),
    Mutation(
        "index: a URL may have what means something in a file or a variable",
        "netpolicy/presets/index_url.py",
        "(?:[A-Za-z0-9._~+-]|%[0-9A-Fa-f]{2})",
        "(?:[^/]|%[0-9A-Fa-f]{2})",
        (INDEX,),
    ),
    Mutation(
        "ceiling: a kind of rule that an enrolment does not name is not bounded",
        "netpolicy/rule_kind.py",
        'found = f"[[{self.name}]] rules" if bound is None else self.above(rule, bound)',
        "found = None if bound is None else self.above(rule, bound)",
        (f"{CEILING}::test_every_kind_of_rule_has_a_bound_and_without_one_allows_nothing",),
    ),
    Mutation(
        "ceiling: rules about other hosts name any host",
        "netpolicy/egress_rules/options.py",
        "if bound.hosts and not any(",
        "if False and not any(",
        (f"{CEILING}::test_rules_about_other_hosts_are_bounded_too",),
    ),
    Mutation(
        "ceiling: rules about other hosts reach private addresses",
        "netpolicy/egress_rules/options.py",
        "if rule.allow_private and not bound.private:",
        "if False:",
        (f"{CEILING}::test_rules_about_other_hosts_are_bounded_too",),
    ),
    Mutation(
        "ceiling: an old enrolment allows kinds of rules that it could not mean",
        "netpolicy/ceiling.py",
        " for kind in kinds if kind.always_written)",
        " for kind in kinds)",
        (f"{CEILING}::test_an_old_enrolment_means_the_kinds_of_its_time",),
    ),
    Mutation(
        "ceiling: a list of kinds allows private addresses",
        "broker/config/named_tables.py",
        "private = self.allow in (None, ANY) if self.private is None else self.private",
        "private = self.private is not False",
        (f"{ENROLMENTS}::test_an_enrolment_allows_the_kinds_of_rules_that_it_names",),
    ),
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
