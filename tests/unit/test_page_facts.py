"""What a page states as a number, a default, a member or an exit code is what the code has.

docs/limits.md is made from a table; these are the sentences of the other pages.
"""

from __future__ import annotations

import inspect
import re
import tomllib
from importlib import import_module
from typing import Any

import pytest
from attrs import asdict, fields, frozen

from broker.config.settings import DEFAULT_UID, BrokerLimits, Timeouts
from broker.kinds.push import GitPush
from gitmoat.audit.journal import Sizes
from gitmoat.confine.profiles import SIDECAR
from gitmoat.listeners import LISTENERS
from gitmoat.messages.host import Verifying
from hostctl import failure
from hostctl.commands.demo import CHECKS
from hostctl.doctor import machine
from hostd.api.operations import Operations
from hostd.broker_link import host_keys
from hostd.config import Config
from hostd.sandbox import bwrap
from hostd.sandbox.planning import RunRequest
from netpolicy.author import Author
from netpolicy.format.document import parse_policy, policy_from_mapping
from netpolicy.format.key_rows import LIMITS, SESSION
from netpolicy.format.reading import PolicyError, UnknownKey
from netpolicy.format.units import parse_duration, parse_size
from netpolicy.format.writing import policy_to_mapping
from netpolicy.policy import PackageIndexes, PushRule
from tests.stage.sources import ROOT

DOCS = ROOT / "docs"
KIB, MIB, GIB = 1 << 10, 1 << 20, 1 << 30
_WORDS = {1: "(?:one|an?)", 2: "two", 4: "four", 5: "five", 8: "eight", 9: "nine", 10: "ten",
          12: "twelve", 16: "sixteen", 20: "twenty", 100: "hundred"}  # fmt: skip


def page(name: str) -> str:
    """Its running text, with one blank for each gap."""
    return " ".join((ROOT / name).read_text(encoding="utf-8").split())


def in_force(name: str) -> int:
    """`package.module:NAME`, a number; behind a slash the unit in which a page says it.

    `NAME().key` is the default of a key; `#NAME` the length of a table.
    """
    place, _, unit = name.partition("/")
    module, _, attribute = place.partition(":")
    value: Any = import_module(module)
    for part in attribute.lstrip("#").split("."):
        value = getattr(value, part.removesuffix("()"))
        value = value() if part.endswith("()") else value
    whole, rest = divmod(float(len(value) if "#" in attribute else value), int(unit or 1))
    assert rest == 0, f"{name} is no whole number of its unit"
    return int(whole)


def spellings(number: int) -> tuple[str, ...]:
    return tuple(dict.fromkeys((str(number), f"{number:,}", _WORDS.get(number, str(number)))))


def states(text: str, sentence: str, numbers: tuple[int, ...]) -> bool:
    pattern = re.escape(sentence).replace(r"\{\}", "{}")
    for number in numbers:
        choices = "|".join(spellings(number))
        pattern = pattern.replace("{}", rf"(?<![\d.,])(?:{choices})(?![\d,])", 1)
    return re.search(pattern, text, re.IGNORECASE) is not None


@frozen
class Fact:
    page: str
    sentence: str
    names: tuple[str, ...]


def fact(page_name: str, sentence: str, *names: str) -> Fact:
    assert sentence.count("{}") == len(names)
    return Fact(page_name, sentence, names)


_HOSTD, _BROKER = "docs/protocol/hostd.md", "docs/protocol/broker.md"
_SOCKET, _AUDIT = "docs/protocol/credential-socket.md", "docs/reference/audit.md"
_ARCHITECTURE, _LIMITATIONS = "docs/architecture.md", "docs/limitations.md"
_THREATS, _CREDENTIALS = "docs/threat-model.md", "docs/credentials.md"

FACTS = (
    fact(_HOSTD, "one JSON line, at most {} MiB, with `op`", f"hostd.api.admin:_LINE_LIMIT/{MIB}"),
    fact(
        _HOSTD,
        "at most {} KiB and {} descriptors",
        f"hostd.process.requests:LONGEST_MESSAGE/{KIB}",
        "hostd.process.requests:MOST_DESCRIPTORS",
    ),
    fact(
        _HOSTD, "gets SIGHUP, and SIGKILL {} seconds later", "hostd.process.commands:_HANGUP_GRACE"
    ),
    fact(_HOSTD, "A child has {} seconds from the fork", "hostd.process.children:DEADLINE"),
    fact(_HOSTD, "of one cause at most {} children", "hostd.process.children:MOST_OF_ONE_CAUSE"),
    fact(
        _HOSTD,
        "does not answer `ping` within {} seconds",
        "hostd.process.fork_client:_PING_TIMEOUT",
    ),
    fact(_HOSTD, "have exactly {} bytes", "gitmoat.messages.sidecar:SIZE"),
    fact(
        _HOSTD,
        "limited to {} a second after a burst of {}",
        "hostd.sidecars.sidecar_process:_DIALS_PER_SECOND",
        "hostd.sidecars.sidecar_process:_DIAL_BURST",
    ),
    fact(_HOSTD, "`seconds`: 0 to {}", "gitmoat.limits.brake:LIFTED"),
    fact(_HOSTD, "finish what runs ({} seconds), then end", "sidecar.service:DRAIN"),
    fact(_HOSTD, "each for {} seconds at most", "hostd.broker_link.helper_link:_TIMEOUT"),
    fact(_BROKER, "for at most {} seconds; 0 when it has done so", "gitmoat.limits.brake:LIFTED"),
    fact(
        _BROKER,
        "at most {} KiB here and {} KiB as the sidecar writes it",
        f"gitmoat.messages.report:REPORT_LIMIT/{KIB}",
        f"gitmoat.messages.report:_LARGEST/{KIB}",
    ),
    fact(
        _BROKER,
        "sends at most {} at once and {} a second after that",
        "sidecar.control.report_queue:BURST",
        "sidecar.control.report_queue:PER_SECOND",
    ),
    fact(
        _BROKER, "takes {} a minute from a session", "broker.sessions.sessions:REPORTS_PER_MINUTE"
    ),
    fact(
        _BROKER,
        "after {} in a row, or for as long as it asks for",
        "broker.upstream.limiter:_FAILURES",
    ),
    fact(
        _BROKER,
        "left alone for {} to {} seconds",
        "broker.upstream.limiter:_FIRST_PAUSE",
        "broker.upstream.limiter:_LONGEST_PAUSE",
    ),
    fact(
        _SOCKET,
        "{} KiB in all, {} KiB a line, {} lines",
        f"credential_helper.gitcredential:REQUEST_LIMIT/{KIB}",
        f"credential_helper.gitcredential:LINE_LIMIT/{KIB}",
        "credential_helper.gitcredential:LINES_LIMIT",
    ),
    fact(
        _SOCKET,
        "{} seconds, one request per connection",
        "sidecar.credential.credential_socket:REQUEST_TIMEOUT",
    ),
    fact(
        _BROKER,
        "its place in it, {} seconds at most",
        "broker.sessions.session_limits:LONGEST_WAIT",
    ),
    fact(
        "docs/policy.md",
        "waits for its turn, up to {} s",
        "broker.sessions.session_limits:LONGEST_WAIT",
    ),
    fact(_SOCKET, "{} tokens a minute (H106)", "sidecar.budgets:CREDENTIALS_PER_MINUTE"),
    fact(_SOCKET, "of this sandbox only, for {} minutes", "sidecar.credential.tokens:LIFETIME/60"),
    fact(_SOCKET, "{} random bytes in base64url", "sidecar.credential.tokens:_TOKEN_OCTETS"),
    fact(
        _SOCKET,
        "at most {} for a repository and {} repositories",
        "sidecar.credential.tokens:_PER_REPOSITORY",
        "sidecar.credential.tokens:_REPOSITORIES",
    ),
    fact(
        _AUDIT,
        "One JSON object per line, ASCII, at most {} MiB",
        f"gitmoat.audit.resuming:LINE_LIMIT/{MIB}",
    ),
    fact(_AUDIT, "cut at {} characters", "gitmoat.audit.texts:TEXT_LIMIT"),
    fact(_AUDIT, "the first {} digits of the hash", "gitmoat.audit.texts:DIGITS"),
    fact(_AUDIT, "each, at most {} |", "gitmoat.audit.events:REFS_LIMIT"),
    fact(_AUDIT, "each record names its first {} refs only", "broker.exchange.denials:FEW_REFS"),
    fact(_AUDIT, "and {} MiB above that", f"broker.exchange.denials:BURST_OCTETS/{MIB}"),
    fact(
        _AUDIT,
        "{} megabytes behind the end of each journal's file",
        f"gitmoat.audit.reserve:SIZE/{MIB}",
    ),
    fact(
        _CREDENTIALS,
        "{} seconds for a helper, {} for GitHub's API",
        "broker.credentials.providers.helper:_TIMEOUT",
        "broker.credentials.providers.github_app:_TIMEOUT",
    ),
    fact(
        _CREDENTIALS,
        "kept until {} minutes before their end",
        "broker.credentials.providers.github_api:_EARLY/60",
    ),
    fact(
        _CREDENTIALS, "kept for {} minutes at most", "broker.credentials.providers.helper:_KEEP/60"
    ),
    fact(
        "docs/policy.md",
        "may ask a {} questions, and lasts {} seconds",
        "sidecar.egress.dns_listener:_MOST_QUESTIONS",
        "sidecar.egress.dns_listener:_IDLE",
    ),
    fact(
        "docs/policy.md",
        "hard end of the session; at most {} days",
        "netpolicy.format.key_rows:_MONTH/86400",
    ),
    fact(_ARCHITECTURE, "1 process, {} descriptors", "sidecar.budgets:DESCRIPTORS"),
    fact(
        _ARCHITECTURE,
        "Sidecars hold requests for {} seconds",
        "sidecar.link.connection_pool:ACQUIRE_TIMEOUT",
    ),
    fact(
        _ARCHITECTURE,
        "what is left after {} more seconds is cut",
        "broker.exchange.draining:CLOSING",
    ),
    fact(_ARCHITECTURE, "if it is not longer than {} KiB by then", f"sidecar.kinds.git:KEPT/{KIB}"),
    fact(
        _ARCHITECTURE,
        "until it is over, for {} seconds at most",
        "hostd.verify.verification:_AT_MOST",
    ),
    fact(_ARCHITECTURE, "{} processes (gate:", "hostd.sandbox.planning:_DEFAULT_PIDS"),
    fact(
        _LIMITATIONS,
        "that has not begun to run within {} seconds is ended (R117)",
        "hostd.process.children:DEADLINE",
    ),
    fact(
        _LIMITATIONS, "`/tmp` has {} GiB of memory at most", f"hostd.sandbox.bwrap:_TMP_SIZE/{GIB}"
    ),
    fact(_THREATS, "; {} are kept for hosts", "broker.api.listener:RESERVED"),
    fact(_THREATS, "the broker closes what one session has beyond {};", "broker.api.listener:EACH"),
    fact(
        _THREATS,
        "its own answer and {} seconds, then it alone is killed",
        "hostd.process.children:DEADLINE",
    ),
    fact(
        _THREATS,
        "at most {} such children for one sandbox",
        "hostd.process.children:MOST_OF_ONE_CAUSE",
    ),
    fact(
        _THREATS,
        "connections to upstreams that are kept warm ({})",
        "broker.upstream.kept:KEEP_CONNECTIONS",
    ),
    fact(
        _THREATS,
        "{} denied a minute for one session",
        "broker.credentials.providers.github_app:DENIED_PER_MINUTE",
    ),
    fact(
        _THREATS,
        "threads that look up names of other hosts ({})",
        "broker.upstream.resolving:_THREADS",
    ),
    fact(_THREATS, "{} looks at a time, one at most for a sandbox", "hostd.watchdog:_AT_A_TIME"),
    fact(_THREATS, "is repeated for {} seconds before it counts", "hostd.watchdog:_UNSEEN_FOR"),
    fact(
        _THREATS, "tier and repository, at most {} of them", "broker.upstream.limiter:MOST_BREAKERS"
    ),
    fact(
        _THREATS,
        "use that credential there wait, {} hour at most",
        "broker.upstream.limiter:LONGEST/3600",
    ),
    fact(
        _THREATS,
        "git operations at a time ({})",
        "broker.config.settings:BrokerLimits().operations",
    ),
    fact(_THREATS, "{} operations of each at most", "broker.sessions.admission:_WAITING_EACH"),
    fact(
        _THREATS,
        "TLS connections to the broker ({})",
        "broker.config.settings:BrokerLimits().connections",
    ),
    fact(
        _THREATS,
        "{} of a session at a time; they are not those for git",
        "broker.upstream.resolving:EACH",
    ),
    fact(
        _THREATS,
        "its answer kept {} minutes, its failure {} seconds",
        "broker.credentials.providers.helper:_KEEP/60",
        "broker.credentials.providers.helper:FAILURE_SECONDS",
    ),
    fact(
        _THREATS,
        "| {} of a session; one session never gets another's",
        "broker.upstream.kept:KEEP_EACH",
    ),
    fact(_THREATS, "{} readers of metrics at a time", "broker.api.metrics_port:CONNECTIONS"),
    fact(_THREATS, "{} datagrams a turn; 16 TCP connections", "sidecar.egress.dns_listener:MOST"),
    fact(
        _THREATS,
        "{} lines, then one a minute, of {} KiB at most",
        "sidecar.logs:BURST",
        f"sidecar.logs:LONGEST/{KIB}",
    ),
    fact(_THREATS, "for its gate ({})", "hostd.sandbox.first_processes:_GATE_LIMITS.pids"),
    fact(_ARCHITECTURE, "(gate: {})", "hostd.sandbox.first_processes:_GATE_LIMITS.pids"),
    fact(_ARCHITECTURE, "of each sandbox every {} seconds", "hostd.config:Watchdog().interval"),
    fact("docs/howto/docker.md", "and again every {} seconds", "hostd.config:Watchdog().interval"),
    fact(
        _LIMITATIONS,
        "{} minutes for each unless configured otherwise",
        "hostd.config:GateTimes().whole/60",
    ),
    fact(_LIMITATIONS, "by silence ({} hours by default)", "netpolicy.policy:Session().idle/3600"),
    fact("README.md", "Then it shows {} promises being kept", "hostctl.commands.demo:#CHECKS"),
    fact("README.md", "What make demo prints: {} promises", "hostctl.commands.demo:#CHECKS"),
    fact(
        "docs/decisions/0014-our-own-descriptors.md",
        "reads up to {} KiB in a turn",
        f"gitmoat.net.transport.descriptor:READ/{KIB}",
    ),
    fact(
        _THREATS,
        "{} KiB of a connection at first, up to {} KiB while",
        f"gitmoat.net.transport.descriptor:FIRST/{KIB}",
        f"gitmoat.net.transport.descriptor:READ/{KIB}",
    ),
    fact(
        "docs/decisions/0016-what-comes-again.md",
        "runs after {} new objects",
        "broker.__main__:_YOUNG",
    ),
    fact(
        "docs/reference/metrics.md",
        "At most {} readers at a time",
        "broker.api.metrics_port:CONNECTIONS",
    ),
    fact(
        "docs/howto/upgrade.md",
        "when that takes longer than {} seconds",
        "sidecar.link.connection_pool:ACQUIRE_TIMEOUT",
    ),
    fact("docs/reading.md", "What it may say to hostd: {} bytes", "gitmoat.messages.sidecar:SIZE"),
)


@pytest.mark.parametrize("stated", FACTS, ids=lambda each: f"{each.page}: {each.sentence[:40]}")
def test_a_number_of_a_page_is_the_one_in_force(stated: Fact) -> None:
    numbers = tuple(in_force(name) for name in stated.names)
    assert states(page(stated.page), stated.sentence, numbers), numbers
    assert not states(page(stated.page), stated.sentence, (numbers[0] + 1, *numbers[1:]))


def test_the_listeners_that_a_page_counts() -> None:
    text = page(_HOSTD)
    assert states(text, "makes the {} listeners", (len(LISTENERS),))
    assert states(text, "configuration, log, {} listeners", (len(LISTENERS),))


@pytest.mark.parametrize("name", ["README.md", "docs/howto/install.md"])
def test_the_oldest_versions_that_are_named(name: str) -> None:
    named = dict(re.findall(r"(Linux|git|Python|Engine) (\d+\.\d+)(?: or newer| with)", page(name)))
    setup = (ROOT / "setup.cfg").read_text(encoding="utf-8")
    python = re.search(r"^python_requires = >=(\S+)$", setup, re.MULTILINE)
    assert python is not None
    oldest = {"Linux": machine._OLDEST, "git": machine._PROGRAMS["git"][1]}
    texts = {each: ".".join(map(str, numbers)) for each, numbers in oldest.items()}
    assert {"Linux", "git", "Python"} <= named.keys()
    known = {**texts, "Python": python[1], "Engine": ".".join(map(str, machine._OLDEST_DOCKER))}
    assert named == {each: known[each] for each in named}


def test_the_packages_that_the_readme_says_are_installed() -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    rows = re.findall(r"^(?:TEST_)?PACKAGES \+?:?= (.*)$", makefile, re.MULTILINE)
    packages = [re.sub(r"\$\(.*?\|\| echo (\S+)\)", r"\1", row).split() for row in rows]
    text = page("README.md")
    assert f"Debian packages with apt ({', '.join(packages[0])})" in text
    said = text.partition("It installs what `make demo` installs, and ")[2].partition(", because")[
        0
    ]
    assert set(re.split(r", | and ", said)) == {each for row in packages[1:] for each in row}


def test_the_promises_of_the_demo_that_requirements_name() -> None:
    named = re.findall(r"demo checks? ((?:`[\w-]+`(?: and )?)+)", text_of("requirements.md"))
    found = {check for each in named for check in re.findall(r"`([\w-]+)`", each)}
    assert len(found) > 5
    assert found <= {check.name for check in CHECKS}


def test_every_git_request_shares_a_sync_of_the_journal() -> None:
    assert GitPush.synced_beside
    said = page("docs/decisions/0010-on-disk-before-it-happens.md")
    assert "Git requests that are decided while one sync is under way share the next" in said


def test_what_a_sidecar_cannot_call() -> None:
    """Three pages say so."""
    allowed = {call for rule in SIDECAR.rules for call in rule.calls}
    away = {"socket", "socketpair", "connect", "bind", "listen", "open", "openat", "openat2",
            "creat", "fork", "vfork", "clone", "clone3", "execve", "execveat", "ptrace",
            "io_uring_setup"}  # fmt: skip
    assert not allowed & away
    assert "no `socket`, `open`, `fork`, `exec`" in page(_ARCHITECTURE)
    assert "system calls without `socket`, `open`, `fork`, `exec`" in page(_THREATS)
    assert "makes or connects a socket of its own, opens a file or starts" in page(
        "docs/reading.md"
    )


def test_what_a_newer_kernel_adds() -> None:
    attesting = ".".join(map(str, machine._ATTESTING))
    assert f"Linux {attesting} adds" in page("README.md")
    assert f"That needs Linux {attesting}." in page(_SOCKET)
    assert f"Before Linux {attesting} the credential socket" in page(_LIMITATIONS)


def test_what_of_the_hosts_programs_a_sandbox_does_not_see() -> None:
    made = inspect.getsource(bwrap)
    assert '"--tmpfs", "/usr/local"' in made and '"/opt"' not in made
    assert "`/usr/local`, `/opt` and home directories of the host are not there" in page(
        _LIMITATIONS
    )


def test_who_the_commits_of_a_sandbox_are_by() -> None:
    assert f"Its commits are by `{Author()}`" in page("docs/howto/coding-agents.md")


# Policies

MINIMAL = 'version = 1\nname = "x"\n[[git]]\nrepos = ["u:a/b"]\nfetch = true\n'


def test_the_defaults_of_the_policy_page_are_those_of_a_policy_that_gives_none() -> None:
    """A row's last value in code, in its second column, is the default."""
    policy = parse_policy(MINIMAL)
    tables = (("session", SESSION, policy.session), ("limits", LIMITS, policy.limits))
    rows = re.findall(r"^\| `(session|limits)\.(\w+)` \| ([^|]+) \|", text_of("policy.md"), re.M)
    stated = {(table, key): re.findall(r"`([^`]+)`", cell)[0] for table, key, cell in rows}
    in_use = {(table, key.name): key.write(getattr(values, key.name))
              for table, keys, values in tables for key in keys}  # fmt: skip
    assert stated.keys() == in_use.keys()
    for place, text in stated.items():
        assert plain(text) == plain(in_use[place]), place


def plain(value: object) -> object:
    """`"8h"`, `"200MiB"`, `120`: seconds, bytes, a number."""
    text = str(value).strip('"')
    if text.isdigit():
        return int(text)
    return parse_size(text) if text.endswith("B") else parse_duration(text)


def text_of(name: str) -> str:
    return (DOCS / name).read_text(encoding="utf-8")


RULES: dict[str, dict[str, object]] = {
    "git": {"repos": ["u:a/b"], "fetch": True, "push": {"branches": ["x"]}},
    "egress": {"hosts": ["a.example.com"], "scheme": "http", "allow_private": True,
               "allow_shared": True},
    "test": {"expect": "deny", "fetch": "u:a/b"},
}  # fmt: skip


def keys_stated(heading: str) -> set[str]:
    """Of the first table below a heading, or below a heading's first words."""
    below = text_of("policy.md").partition(heading)[2]
    rows = re.search(r"(?:^\|.*\n)+", below, re.MULTILINE)
    assert rows is not None
    cells = re.findall(r"^\| ((?:`\w+`(?:, )?)+) \|", rows[0], re.MULTILINE)
    return {key for cell in cells for key in re.findall(r"`(\w+)`", cell)}


def is_known(kind: str, rule: dict[str, object]) -> bool:
    whole: dict[str, object] = {"version": 1, "name": "x", kind: [rule]}
    try:
        policy_from_mapping(whole)
    except UnknownKey:
        return False
    except PolicyError:
        pass
    return True


def test_the_indexes_of_the_policy_page_are_those_that_are_read() -> None:
    assert keys_stated("### Indexes\n") == {key.name for key in fields(PackageIndexes)}


@pytest.mark.parametrize("kind", RULES)
def test_the_keys_of_a_rule_on_the_policy_page_are_those_that_are_read(kind: str) -> None:
    stated = keys_stated(f"### `[[{kind}]]`\n")
    assert stated >= RULES[kind].keys()
    for key in stated:
        assert is_known(kind, {**RULES[kind], key: RULES[kind].get(key, [[]])}), key
    assert not is_known(kind, {**RULES[kind], "surprise": 1})
    if kind != "test":
        policy = policy_from_mapping({"version": 1, "name": "x", kind: [RULES[kind]]})
        written: Any = policy_to_mapping(policy)[kind]
        assert written[0].keys() <= stated


def test_the_keys_of_a_push_on_the_policy_page_are_those_of_a_rule() -> None:
    stated = keys_stated("takes away just that.\n")
    assert stated == {each.name for each in fields(PushRule)}


# Configuration


def shown(place: int) -> dict[str, Any]:
    blocks = re.findall(r"^```toml\n(.*?)^```$", text_of("configuration.md"), re.M | re.S)
    return tomllib.loads(blocks[place])


def seconds(table: dict[str, Any]) -> dict[str, Any]:
    return {key: plain(value) if isinstance(value, str) else value for key, value in table.items()}


def test_the_brokers_configuration_is_shown_with_its_defaults() -> None:
    broker = shown(0)
    assert seconds(broker["timeouts"]) == asdict(Timeouts())
    assert seconds(broker["limits"]) == asdict(BrokerLimits())
    assert seconds(broker["audit"]) == {"segment": Sizes().segment, "keep": Sizes().keep}
    assert broker["process"]["uid"] == DEFAULT_UID


def test_hostds_configuration_is_shown_with_its_defaults() -> None:
    hostd: dict[str, Any] = shown(1)
    defaults: dict[str, Any] = {each.name: each.default for each in fields(Config)}
    tables = {name: table for name, table in hostd.items() if isinstance(table, dict)}
    assert tables.keys() == {each.name for each in fields(Config)} - {"version", "host"}
    for name in tables.keys() - {"broker"}:
        value = {key: plain_or_text(each) for key, each in tables[name].items()}
        lists = {key: tuple(each) for key, each in value.items() if isinstance(each, list)}
        assert value | lists == asdict(defaults[name]), name


def plain_or_text(value: object) -> object:
    return plain(value) if isinstance(value, str) and re.fullmatch(r"\d+[smhd]", value) else value


def test_the_page_of_configuration_has_every_exit_code() -> None:
    said = page("docs/configuration.md").partition("## Exit codes of hostctl ")[2]
    said = said.partition(" Every error is three lines")[0]
    numbers = {int(each) for each in re.findall(r"\| (\d+) \|", said)}
    ours = {value for name, value in vars(failure).items() if name.isupper() and type(value) is int}
    assert numbers == (ours - {failure._TEXT_LIMIT}) | {0}


# Members of messages


def members(op: str) -> set[str]:
    """In code, in the row of an operation; what stands in brackets is inside a member."""
    row = re.search(rf"^\| `{op}` \|(.*)$", text_of("protocol/hostd.md"), re.MULTILINE)
    assert row is not None
    return set(re.findall(r"`([a-z_]+)`", re.sub(r"\([^)]*\)", "", row[1])))


def test_the_members_of_run() -> None:
    assert members("run") - {"started", "exit"} == {each.name for each in fields(RunRequest)}


def test_the_members_of_hostds_status() -> None:
    here = set(re.findall(r'^ +"(\w+)":', inspect.getsource(Operations.status), re.MULTILINE))
    keys = set(re.findall(r'"(\w+)":', inspect.getsource(host_keys.described)))
    assert len(here) > 5 and len(keys) == 3
    assert members("status") == here | keys


def test_the_members_of_verifying() -> None:
    row = re.search(r"`POST /host/verifying` \| `\{([^}]*)\}`", text_of("protocol/broker.md"))
    assert row is not None
    assert set(re.findall(r'"(\w+)"', row[1])) == {each.name for each in fields(Verifying)}
