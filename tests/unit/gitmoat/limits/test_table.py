"""The table of limits says what is in force."""

from __future__ import annotations

import inspect

import pytest

from broker.api import metrics_port
from broker.config.settings import BrokerLimits, Timeouts
from broker.credentials.providers import cache, github_app
from broker.exchange import denials
from broker.kinds import git, git_answers
from broker.sessions import session_limits
from broker.sessions.sessions import REPORTS_PER_MINUTE
from broker.upstream import limiter, resolving
from gitmoat.audit import reserve
from gitmoat.audit.journal import Sizes
from gitmoat.audit.texts import TEXT_LIMIT
from gitmoat.codes import CODES
from gitmoat.limits.table import GROUPS, Limit
from gitmoat.listeners import BUDGETS
from gitmoat.net.http.client_end import FRAMING
from gitmoat.net.transport.descriptor import READ
from gitmoat.wire.http.heads import MAX_REQUEST_HEADERS, REQUEST_HEAD_LIMIT
from hostd import sandboxes
from hostd.process import children
from hostd.sandbox import planning
from hostd.sidecars import serving
from netpolicy.policy import Limits
from netpolicy.policy import Session as SessionTimes
from sidecar import budgets
from sidecar.credential import credential_socket
from sidecar.egress import dns_listener

ROWS = [limit for group in GROUPS for limit in group.limits]
POLICY, BROKER, TIMES = Limits(), BrokerLimits(), Timeouts()
IN_FORCE: dict[str, float] = {
    "git_requests_per_minute": POLICY.git_requests_per_minute,
    "git_wait": session_limits.LONGEST_WAIT,
    "git_concurrency": POLICY.git_concurrency,
    "push_max": POLICY.push_max,
    "fetch_max": POLICY.fetch_max,
    "session_max": POLICY.session_max,
    "egress_connections": POLICY.egress_connections,
    "egress_per_minute": POLICY.egress_per_minute,
    "egress_max": POLICY.egress_max,
    "egress_idle": POLICY.egress_idle,
    "push_refs": POLICY.push_refs,
    "ttl": SessionTimes().ttl,
    "idle_session": SessionTimes().idle,
    "reports": REPORTS_PER_MINUTE,
    "denials": denials._EACH.burst,
    "free_refusals": POLICY.free_refusals,
    "helper_connections": BUDGETS["helper_git"].connections,
    "untrusted_connections": BUDGETS["untrusted_git"].connections,
    "untrusted_rate": BUDGETS["untrusted_git"].per_second,
    "credential_connections": BUDGETS["credential"].connections,
    "proxy_connections": BUDGETS["proxy"].connections,
    "plain_connections": BUDGETS["plain"].connections,
    "tls_connections": BUDGETS["tls"].connections,
    "dns_connections": BUDGETS["dns_conversations"].connections,
    "egress_links": budgets.EGRESS_LINKS,
    "dns_batch": dns_listener.MOST,
    "lookups": resolving.EACH,
    "credentials_per_minute": budgets.CREDENTIALS_PER_MINUTE,
    "credential_time": credential_socket.REQUEST_TIMEOUT,
    "broker_links": serving.DIAL_CAP,
    "descriptors": budgets.DESCRIPTORS,
    "head": TIMES.head,
    "head_bytes": REQUEST_HEAD_LIMIT,
    "headers": MAX_REQUEST_HEADERS,
    "idle": TIMES.idle,
    "operation": TIMES.operation,
    "drain": TIMES.drain,
    "sliced_lines": git_answers.FREE_LINES,
    "sliced_framing": FRAMING,
    "turn": READ,
    "unpacked": git.UNPACKED_TIMES,
    "credential_drops": cache.DROPS,
    "denied_tokens": github_app.DENIED_PER_MINUTE,
    "minimum_rate": BROKER.minimum_rate,
    "connections": BROKER.connections,
    "operations": BROKER.operations,
    "queue": BROKER.queue,
    "host_requests_per_minute": BROKER.host_requests_per_minute,
    "requests_per_minute": BROKER.requests_per_minute,
    "credential_requests_per_minute": BROKER.credential_requests_per_minute,
    "longest_rest": limiter.LONGEST,
    "breaker": limiter._FAILURES,
    "doors": limiter.MOST_BREAKERS,
    "metrics_connections": metrics_port.CONNECTIONS,
    "start": children.DEADLINE,
    "unstarted": children.MOST_OF_ONE_CAUSE,
    "creations": sandboxes._CREATIONS,
    "pids": planning._DEFAULT_PIDS,
    "audit_text": TEXT_LIMIT,
    "audit_segment": Sizes().segment,
    "audit_keep": Sizes().keep,
    "audit_request": denials.REQUEST_OCTETS,
    "audit_burst": denials.BURST_OCTETS,
    "audit_reserve": Sizes().reserve,
    "audit_reserve_own": Sizes().reserve / reserve.OWN,
    "audit_reserve_share": Sizes().reserve / reserve.SHARES,
}


def test_every_row_is_checked_once() -> None:
    names = [row.name for row in ROWS]
    assert len(names) == len(set(names))
    assert set(names) == set(IN_FORCE)


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
def test_a_row_says_what_is_in_force_with_a_code_and_an_end(row: Limit) -> None:
    assert row.value == IN_FORCE[row.name]
    assert row.end
    assert not row.code or row.code in CODES


@pytest.mark.parametrize(
    ("kind", "file"), [(BrokerLimits, "broker.toml"), (Limits, "policy")], ids=["broker", "policy"]
)
def test_every_limit_that_can_be_set_has_a_row(kind: type, file: str) -> None:
    for key in inspect.signature(kind).parameters:
        assert any(row.setting == f"{file} `limits.{key}`" for row in ROWS), key


def test_every_socket_of_a_sidecar_has_a_row() -> None:
    assert len(BUDGETS) == sum(row.name.endswith("_connections") for row in GROUPS[1].limits)
