"""`hostctl reload`: running sandboxes get changed policies and lose what they do not allow."""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.stage.internet import Internet, NetBox, open_box
from tests.waiting import eventually

HEAD = "version = 1\nname = '{name}'\n"
WEB = "[[egress]]\nid = 'web'\nhosts = ['web.example']\n"
OTHER = "[[egress]]\nid = 'other'\nhosts = ['other.example']\n"
# Holds a connection open to each host, and says when one has ended.
HOLD = r"""
import socket, ssl, sys, threading
def hold(name):
    context = ssl.create_default_context(cafile="ca.pem")
    with context.wrap_socket(socket.create_connection((name, 443)), server_hostname=name) as held:
        held.sendall(f"GET /endless HTTP/1.1\r\nHost: {name}\r\n\r\n".encode())
        print("open", name, flush=True)
        try:
            while held.recv(4096):
                pass
        except OSError:
            pass
        print("cut", name, flush=True)
for name in sys.argv[1:]:
    threading.Thread(target=hold, args=(name,)).start()
"""


@pytest.fixture
def policy(internet: Internet) -> Iterator[Path]:
    name = f"p{uuid.uuid4().hex[:8]}"
    path = internet.instance.paths.policies / f"{name}.toml"
    path.write_text(HEAD.format(name=name) + WEB + OTHER)
    yield path
    path.unlink()


@pytest.fixture
def box(internet: Internet, policy: Path) -> Iterator[NetBox]:
    with open_box(internet, policy.stem) as made:
        yield made


def fetched(box: NetBox, host: str) -> bool:
    return box.sh(f"curl -sS --cacert ca.pem https://{host}/hello").code == 0


def write(policy: Path, *rules: str) -> None:
    policy.write_text(HEAD.format(name=policy.stem) + "".join(rules))


def test_another_policy_counts_at_once_and_cuts_what_it_does_not_allow(
    box: NetBox, policy: Path
) -> None:
    before = json.loads(box.internet.hostctl("--json", "inspect", box.name).out)
    (box.workdir / "hold.py").write_text(HOLD)
    held = box.workdir / "held"
    box.sh("setsid python3 hold.py web.example other.example > held 2>&1 &")
    eventually(lambda: held.read_text().count("open") == 2, "two connections are open")
    write(policy, WEB)
    ran = box.internet.hostctl("--json", "reload")
    assert ran.code == 0, ran.text
    (replaced,) = json.loads(ran.out)["replaced"]
    assert (replaced["name"], replaced["cut"]) == (box.name, 1)
    eventually(lambda: "cut other.example" in held.read_text(), "the other one is cut")
    time.sleep(1)
    assert "cut web.example" not in held.read_text()
    assert fetched(box, "web.example")
    assert not fetched(box, "other.example")
    assert not box.sh("getent hosts other.example").out
    after = json.loads(box.internet.hostctl("--json", "inspect", box.name).out)
    assert after["sidecar"] == before["sidecar"], "nothing was restarted"
    assert after["session"]["id"] == before["session"]["id"]
    assert after["policy"]["sha256"] != before["policy"]["sha256"]
    shown = json.loads(box.sh("cat /run/gitmoat/policy.json").out)
    assert [rule["id"] for rule in shown["egress"]] == ["web"]


def test_what_is_added_can_be_reached_at_once(box: NetBox, policy: Path) -> None:
    write(policy, WEB)
    box.internet.hostctl("reload").expect_success("reload")
    assert not fetched(box, "other.example")
    write(policy, WEB, OTHER)
    box.internet.hostctl("reload").expect_success("reload")
    assert fetched(box, "other.example")


def test_the_rules_in_the_kernel_are_for_the_policy_in_force(box: NetBox, policy: Path) -> None:
    write(policy, OTHER)
    box.internet.hostctl("reload").expect_success("reload")
    about = json.loads(box.internet.hostctl("--json", "inspect", box.name).out)
    command = ("nsenter", "-t", str(about["pid"]), "-n", "nft", "list", "ruleset")
    assert f"policy {about['policy']['sha256']}" in box.internet.host.run(*command)


def test_an_invalid_policy_changes_nothing(box: NetBox, policy: Path) -> None:
    policy.write_text(HEAD.format(name=policy.stem) + WEB + "[[egress]]\nhosts = ['*']\n")
    ran = box.internet.hostctl("reload")
    assert ran.code == 8, ran.text
    assert fetched(box, "web.example")
    assert fetched(box, "other.example")


def test_it_outlives_a_new_sidecar_and_a_new_hostd(box: NetBox, policy: Path) -> None:
    write(policy, OTHER)
    box.internet.hostctl("reload").expect_success("reload")
    about = json.loads(box.internet.hostctl("--json", "inspect", box.name).out)
    box.internet.host.run("kill", "-9", str(about["sidecar"]["pid"]))
    eventually(lambda: fetched(box, "other.example"), "the next sidecar serves")
    assert not fetched(box, "web.example")


def test_a_host_of_its_own_for_one_sandbox(internet: Internet) -> None:
    words = ("run", "--rm", "--allow-host", "web.example", "--", "sh", "-c")
    opened = internet.hostctl(*words, "curl -sSk https://web.example/hello")
    assert opened.out == "hello from outside\n", opened.text
    shut = internet.hostctl(*words, "wget -nv -O- https://other.example/ 2>&1")
    assert "other.example:443: this host is not on the sandbox's list (E101)" in shut.text


def test_a_host_that_the_policy_does_not_allow_is_no_option(internet: Internet) -> None:
    ran = internet.hostctl("run", "--policy", "net", "--allow-host", "evil.example", "--", "true")
    assert ran.code == 125
    assert "evil.example:443 is not within what the policy allows" in ran.text
