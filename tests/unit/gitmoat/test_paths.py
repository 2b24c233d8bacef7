"""Everything lies below the root."""

from __future__ import annotations

from pathlib import Path

import pytest

from gitmoat.paths import Paths

PUBLISHED = {
    "etc": "etc/gitmoat",
    "broker_toml": "etc/gitmoat/broker.toml",
    "broker_d": "etc/gitmoat/broker.d",
    "hostd_toml": "etc/gitmoat/hostd.toml",
    "policies": "etc/gitmoat/policies",
    "broker_state": "var/lib/gitmoat/broker",
    "broker_key": "var/lib/gitmoat/broker/broker.key",
    "broker_store": "var/lib/gitmoat/broker/store.sqlite",
    "broker_vault": "var/lib/gitmoat/broker/vault",
    "broker_audit": "var/lib/gitmoat/broker/audit/audit.ndjson",
    "hostd_state": "var/lib/gitmoat/hostd",
    "host_key": "var/lib/gitmoat/hostd/host.key",
    "hostd_audit": "var/lib/gitmoat/hostd/audit.ndjson",
    "hostd_socket": "run/gitmoat/hostd.sock",
    "broker_admin_socket": "run/gitmoat/broker-admin.sock",
    "sandboxes_run": "run/gitmoat/sb",
    "control_dir": "run/gitmoat/ctl",
    "log_dir": "var/log/gitmoat",
    "broker_log": "var/log/gitmoat/broker.log",
    "hostd_log": "var/log/gitmoat/hostd.log",
}


@pytest.mark.parametrize("name", PUBLISHED)
@pytest.mark.parametrize("root", ["/", "/tmp/demo"])
def test_published_paths_are_where_they_were_promised(name: str, root: str) -> None:
    assert getattr(Paths(root), name) == Path(root) / PUBLISHED[name]


def test_the_root_is_the_file_system_unless_told() -> None:
    assert Paths() == Paths("/") and Paths().root == Path("/")
    assert Paths(Path("/a")) == Paths("/a") and hash(Paths("/a")) == hash(Paths("/a"))
    assert Paths("/a") != Paths("/b") and repr(Paths("/a")) == "Paths('/a')"
