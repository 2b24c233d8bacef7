"""Controls that `hostctl verify` measures, weakened one by one: it must say so, each time.

Some are noticed before a sandbox is even activated; then there is none that could be verified, and
the same test fails.
"""

from __future__ import annotations

from tests.mutations.apart import APART
from tests.mutations.between_sandboxes import BETWEEN
from tests.mutations.containers import CONTAINERS
from tests.mutations.exchanges import EXCHANGES
from tests.mutations.policies import POLICIES
from tests.mutations.recorded import RECORDED
from tests.mutations.sidecar_exchanges import SIDECAR_EXCHANGES
from tests.mutations.stored import STORED
from tests.mutations.table import MUTATIONS, NFT, RULES_LOAD, Mutation
from tests.mutations.typed import TYPED
from tests.mutations.wires import WIRES

VERIFY = ("tests/live/test_verify.py::test_every_control_of_a_sandbox_is_enforced[agent]",)
SEARCH = ("tests/wire/hostd/test_marker_search.py",)
JUDGED = ("tests/unit/hostd/verify/test_probes.py",)

VERIFIED = (
    Mutation(
        "verify: the helper's port is open to all",
        NFT,
        'f"ip daddr 127.0.0.1 tcp dport {GIT_HELPER} meta skuid {uids.helper} accept"',
        'f"tcp dport {GIT_HELPER} accept"',
        VERIFY,
    ),
    Mutation(
        "verify: low ports are everybody's",
        "hostd/network/netns.py",
        '"net/ipv4/ip_unprivileged_port_start": "1024"',
        '"net/ipv4/ip_unprivileged_port_start": "0"',
        VERIFY,
    ),
    Mutation(
        "verify: ICMP sockets are everybody's",
        "hostd/network/netns.py",
        '"net/ipv4/ping_group_range": "1\\t0"',
        '"net/ipv4/ping_group_range": "0\\t2147483647"',
        VERIFY,
    ),
    Mutation(
        "verify: no system-call filter",
        "gitmoat/confine/confining.py",
        "    if confinement.seccomp is not None:\n",
        "    if False:\n",
        VERIFY,
    ),
    Mutation(
        "verify: files can become setuid",
        "gitmoat/confine/profiles.py",
        "_SETUID_OR_SETGID = 0o6000",
        "_SETUID_OR_SETGID = 0o10000",
        VERIFY,
    ),
    Mutation(
        "verify: the packet filter can be asked",
        "gitmoat/confine/profiles.py",
        "Argument(2, Compare.EQUAL, (_NETLINK_ROUTE,))",
        "Argument(2, Compare.EQUAL, (_NETLINK_ROUTE, 12))",
        ("tests/unit/gitmoat/confine/test_seccomp.py",),
    ),
    Mutation(
        "verify: new privileges can be had",
        "gitmoat/confine/confining.py",
        "    linux.no_new_privileges()\n",
        "    pass\n",
        VERIFY,
    ),
    Mutation(
        "verify: groups are inherited",
        "gitmoat/confine/confining.py",
        "    os.setgroups(groups)\n",
        "    os.setgroups([4])\n",
        VERIFY,
    ),
    Mutation(
        "verify: the socket's directory can be written",
        "hostd/sandbox/bwrap.py",
        '*("--ro-bind", str(directories.run), RUN),',
        '*("--bind", str(directories.home), RUN),',
        VERIFY,
    ),
    Mutation(
        "verify: every ref may be pushed",
        "broker/kinds/push.py",
        "        if isinstance(pushed, PushDenied):\n            reasons = ",
        "        if False:\n            reasons = ",
        VERIFY,
    ),
    Mutation(
        "verify: a sidecar can open files and sockets",
        "gitmoat/confine/profiles.py",
        '    name="sidecar",\n    rules=(\n',
        '    name="sidecar",\n    rules=(\n        Rule(("socket", "fork", "clone"), Allow()),\n',
        VERIFY,
    ),
    Mutation(
        "verify: a refusal may take its time",
        "hostd/verify/probes.py",
        "if outcome is None or outcome.got == NO_ANSWER:",
        "if outcome is None:",
        JUDGED,
    ),
    Mutation(
        "verify: a probe that was killed has passed",
        "hostd/verify/probes.py",
        "            return False\n        return outcome.worked",
        "            return True\n        return outcome.worked",
        JUDGED,
    ),
    Mutation(
        "verify: whatever fails was refused by the filter",
        "hostd/verify/attempts/processes.py",
        "        if problem.errno in _NOT_LET_THROUGH:\n",
        "        if True:\n",
        JUDGED,
    ),
    Mutation(
        "verify: a changed report is believed",
        "gitmoat/identity/signed_report.py",
        "        VerifyKey(parse_public(key)).verify(_CONTEXT + _canonical(rest), signature)\n",
        "        parse_public(key)\n",
        ("tests/unit/gitmoat/identity/test_signed_report.py",),
    ),
    Mutation(
        "doctor: a replaced file is mended too",
        "hostctl/doctor/installation.py",
        "            if (found.st_dev, found.st_ino) != (seen.st_dev, seen.st_ino):\n",
        "            if False:\n",
        ("tests/unit/hostctl/doctor/test_findings.py",),
    ),
    Mutation(
        "nft: the helper's UDP goes where it likes",
        NFT,
        'f"udp dport != @sidecar_ports {untrusted}"',
        '"udp dport != @sidecar_ports accept"',
        (f"{RULES_LOAD}::test_ports_for_other_hosts_are_the_commands_alone",),
    ),
    Mutation(
        "nft: other protocols pass on lo",
        NFT,
        "    'counter name \"refused\"',\n)",
        '    "accept",\n)',
        VERIFY,
    ),
    Mutation(
        "nft: anybody may use the proxy",
        NFT,
        'f"ip daddr 127.0.0.1 tcp dport {{ {DNS}, {CONNECT} }} {untrusted}"',
        'f"ip daddr 127.0.0.1 tcp dport {{ {DNS}, {CONNECT} }} accept"',
        (f"{RULES_LOAD}::test_each_uid_reaches_its_own_ports_only",),
    ),
    Mutation(
        "nft: anybody may use the synthetic addresses",
        NFT,
        'f"ip daddr {SYNTHETIC} tcp dport {{ {HTTP}, {TLS} }} {untrusted}"',
        'f"ip daddr {SYNTHETIC} tcp dport {{ {HTTP}, {TLS} }} accept"',
        (f"{RULES_LOAD}::test_ports_for_other_hosts_are_the_commands_alone",),
    ),
    Mutation(
        "nft: anybody may ask the resolver",
        NFT,
        'f"ip daddr 127.0.0.1 udp dport {DNS} {untrusted}"',
        'f"ip daddr 127.0.0.1 udp dport {DNS} accept"',
        (f"{RULES_LOAD}::test_ports_for_other_hosts_are_the_commands_alone",),
    ),
    Mutation(
        "nft: anybody may answer for the resolver",
        NFT,
        'f"udp sport {DNS} meta skuid {uids.sidecar} accept"',
        'f"udp sport {DNS} accept"',
        (f"{RULES_LOAD}::test_a_squatter_on_a_sidecar_port_gets_no_connection",),
    ),
    Mutation(
        "tunnel: any name in the ClientHello",
        "gitmoat/wire/clienthello.py",
        "        if hello.name != name:\n",
        "        if False:\n",
        ("tests/unit/gitmoat/wire/test_clienthello.py",),
    ),
    Mutation(
        "broker: names may lead inside",
        "broker/upstream/other_hosts.py",
        "if may_dial(each, self.allow_private) and not other.ours(each)",
        "if True",
        ("tests/wire/broker/test_egress.py::test_a_name_that_leads_inside_is_not_dialled",),
    ),
    Mutation(
        "broker: private addresses are as good as others",
        "netpolicy/egress_rules/addresses.py",
        "return reach is Reach.PUBLIC or (allow_private and reach is Reach.PRIVATE)",
        "return reach is not Reach.NEVER",
        ("tests/unit/netpolicy/egress_rules/test_addresses.py",),
    ),
    Mutation(
        "hostd: whoever connects may command",
        "hostd/api/admin.py",
        "        if uid == 0:\n",
        "        if True:\n",
        ("tests/wire/hostd/test_admin_peers.py",),
    ),
    Mutation(
        "control: whoever connects is heard",
        "gitmoat/control/server.py",
        "            self.open = self._hears = self.permits(self.uid)\n",
        "            self.open = self._hears = self.permits(self.uid) or True\n",
        ("tests/wire/hostd/test_control_server.py",),
    ),
    Mutation(
        "verify: a secret of the host lies in the sandbox",
        "hostd/verify/verification.py",
        "paths.run, paths.etc, paths.log_dir)",
        "paths.run, *paths.sandboxes_run.iterdir())",
        VERIFY,
    ),
    Mutation(
        "verify: a command's environment has a token",
        "hostd/sandbox/environment.py",
        '    "GIT_CONFIG_SYSTEM": f"{RUN}/gitconfig",\n',
        '    "GIT_CONFIG_SYSTEM": f"{RUN}/gitconfig",\n    "TOKEN": "ghp_" + "x" * 36,\n',
        VERIFY,
    ),
    Mutation(
        "verify: the search for secrets finds none",
        "hostd/verify/attempts/file_system.py",
        "            if wanted in data:\n",
        "            if False:\n",
        SEARCH,
    ),
    Mutation(
        "verify: the search for secrets leaves out files",
        "hostd/verify/attempts/file_system.py",
        "for where, data in chain(_of_processes(), _of_files()):",
        "for where, data in _of_processes():",
        VERIFY,
    ),
    Mutation(
        "broker: a credential is in the log",
        "broker/credentials/injection.py",
        '    return b"Basic " + base64.b64encode(pair)\n',
        "    from twisted.logger import Logger\n\n"
        '    Logger().info("using {pair}", pair=pair)\n'
        '    return b"Basic " + base64.b64encode(pair)\n',
        ("tests/live/test_no_secret_anywhere.py::test_no_secret_is_found_anywhere_it_was_not_put",),
    ),
    Mutation(
        "brake: a verification that nobody ends has no end",
        "gitmoat/limits/brake.py",
        "self._lifted = now + min(seconds, LIFTED)",
        "self._lifted = now + seconds",
        ("tests/unit/gitmoat/limits/test_quota_and_brake.py",),
    ),
    Mutation(
        "brake: a sandbox is never slowed down",
        "sidecar/exchange.py",
        "        delay = self._pace.refused()\n",
        "        delay = self._pace.refused() * 0\n",
        ("tests/wire/sidecar/test_floods.py",),
    ),
    Mutation(
        "sidecar: whoever connects is hostd",
        "sidecar/control/hostd_socket.py",
        "            self._admitted.attest(sock)\n",
        "            pass\n",
        ("tests/wire/sidecar/test_floods.py::test_only_root_can_say_that_a_verification_runs",),
    ),
    Mutation(
        "broker: a host touches sessions of others",
        "broker/sessions/grants.py",
        "        if session is None or session.stored.host != host:\n",
        "        if session is None:\n",
        (
            "tests/wire/broker/sessions/test_sessions.py::test_a_host_can_only_touch_its_own_sessions",
        ),
    ),
    Mutation(
        "helper: a crowd at the credential socket turns it away",
        "credential_helper/rendezvous.py",
        "        client.connect(path)\n        client.settimeout(_SECONDS)\n",
        "        client.settimeout(_SECONDS)\n        client.connect(path)\n",
        (
            "tests/wire/credential_helper/test_helper_command.py"
            "::test_it_waits_for_its_turn_behind_others",
        ),
    ),
    Mutation(
        "nft: an interface that appears is heard",
        NFT,
        """_hook("input", 'iifname "lo" accept', 'counter name "strange_input"')""",
        """_hook("input", "accept")""",
        (f"{RULES_LOAD}::test_an_interface_that_appears_is_dead_in_both_directions",),
    ),
    Mutation(
        "nft: untrusted code answers from the resolver's port",
        NFT,
        '        f"udp sport @sidecar_ports {_SQUAT}",\n',
        "",
        (f"{RULES_LOAD}::test_a_squatter_on_a_sidecar_port_gets_no_connection",),
    ),
    Mutation(
        "grant: any signature will do",
        "gitmoat/identity/grant.py",
        "        VerifyKey(key).verify(_CONTEXT + payload, signature)\n",
        "        VerifyKey(key)\n",
        ("tests/unit/gitmoat/identity/test_grant.py",),
    ),
)

ALL = (
    *MUTATIONS,
    *VERIFIED,
    *CONTAINERS,
    *TYPED,
    *BETWEEN,
    *APART,
    *POLICIES,
    *STORED,
    *WIRES,
    *RECORDED,
    *EXCHANGES,
    *SIDECAR_EXCHANGES,
)
