from __future__ import annotations

import pytest

from gitmoat.messages.sidecar import Uids, format_config, parse_config
from gitmoat.shape import Misshapen
from tests.fakes.sidecar_scope import POLICY, UPSTREAMS, config_bytes, config_mapping


def test_a_whole_config_is_read() -> None:
    config = parse_config(config_bytes(helper_cgroups=[7, 9]))
    assert config.sandbox == "sb1"
    assert config.uids == Uids(sidecar=61001, helper=61002, untrusted=61003)
    assert config.helper_cgroups == frozenset({7, 9})
    assert config.broker_keys == frozenset({bytes(32)})
    assert config.policy == POLICY
    assert config.upstreams == UPSTREAMS
    assert config.dial_cap == 16


def test_hostd_writes_what_a_sidecar_reads() -> None:
    config = parse_config(config_bytes(helper_cgroups=[7, 9]))
    assert parse_config(format_config(config)) == config


def test_no_cgroup_list_means_that_cgroups_are_not_compared() -> None:
    assert parse_config(config_bytes()).helper_cgroups is None


@pytest.mark.parametrize(
    ("changes", "path"),
    [
        ({"extra": 1}, "extra"),
        ({"schema": "gitmoat.sidecar/2"}, "schema"),
        ({"sandbox": ""}, "sandbox"),
        ({"session": "a\nb"}, "session"),
        ({"uids": {"sidecar": 1, "helper": 2}}, "uids.untrusted"),
        ({"uids": {"sidecar": 1, "helper": 2, "untrusted": 2}}, "uids"),
        ({"uids": {"sidecar": 0, "helper": 2, "untrusted": 3}}, "uids.sidecar"),
        ({"uids": {"sidecar": True, "helper": 2, "untrusted": 3}}, "uids.sidecar"),
        ({"helper_cgroups": []}, "helper_cgroups"),
        ({"helper_cgroups": ["7"]}, "helper_cgroups"),
        ({"broker_keys": []}, "broker_keys"),
        ({"broker_keys": ["AAAA"]}, "broker_keys"),
        ({"policy": {"version": 2}}, "policy.version"),
        ({"policy": None}, "policy"),
        ({"upstreams": {"upstreams": [{"name": "x"}]}}, "upstreams"),
        ({"dial_cap": 0}, "dial_cap"),
        ({"dial_cap": 16.0}, "dial_cap"),
    ],
)
def test_every_fault_is_refused_by_its_key(changes: dict[str, object], path: str) -> None:
    with pytest.raises(Misshapen) as caught:
        parse_config(config_bytes(**changes))
    assert caught.value.path.startswith(path)


@pytest.mark.parametrize("key", sorted(config_mapping()))
def test_no_key_has_a_default(key: str) -> None:
    import json

    mapping = config_mapping()
    del mapping[key]
    with pytest.raises(Misshapen) as caught:
        parse_config(json.dumps(mapping).encode())
    assert caught.value.path == key


@pytest.mark.parametrize("raw", [b"", b"{", b"[]", b"\xff", b"[" * 100000])
def test_what_is_not_an_object_is_refused(raw: bytes) -> None:
    with pytest.raises(Misshapen):
        parse_config(raw)
