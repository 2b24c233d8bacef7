"""broker.toml: everything or nothing, and errors that name the file and the key path."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
import trustme

from broker.config.files import load_config
from broker.config.settings import (
    AppProvider,
    BrokerConfig,
    FileProvider,
    HelperProvider,
    HostConfig,
    Proxy,
    Timeouts,
    UpstreamConfig,
    VaultProvider,
)
from broker.config.tree import Tree, open_tree
from broker.config.values import Address, Api
from broker.errors import Misconfigured
from gitmoat.wire.git.repository_name import Place, RepositoryPath
from gitmoat.wire.git.smarthttp import Push
from netpolicy.patterns.matchers import HostPattern, RepoPattern
from netpolicy.policy import Ceiling, EgressBound, GitBound
from netpolicy.rule_kinds import KINDS

KEY = "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA="
THIRD = "AgAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA="
OTHER = "AQAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA="
MINIMAL = 'version = 1\n[listen]\naddress = "127.0.0.1:8443"\n'
UPSTREAM = """
[upstream.corp]
url = "https://git.corp.example:8443"
also = ["old.corp.example"]
provider = "corp"
case_insensitive = false
[provider.corp]
type = "vault"
"""


class Files:
    def __init__(self, root: Path) -> None:
        self.main = root / "broker.toml"
        self.additions = root / "broker.d"
        self.tree: Tree = open_tree(root)
        self.root = root

    def load(self, main: str = MINIMAL, **additions: str) -> BrokerConfig:
        self.write(self.main, main)
        for name, text in additions.items():
            self.additions.mkdir(exist_ok=True)
            self.write(self.additions / f"{name}.toml", text)
        return load_config(self.tree, self.main, self.additions)

    def write(self, path: Path, text: str) -> None:
        path.write_text(text)
        path.chmod(0o640)


@pytest.fixture
def files(tmp_path: Path) -> Iterator[Files]:
    made = Files(tmp_path)
    yield made
    made.tree.close()


def test_a_minimal_file_has_documented_defaults(files: Files) -> None:
    config = files.load()
    assert config.listen == Address("127.0.0.1", 8443)
    assert (config.uid, config.gid) == (1999999999, 1999999999)
    assert config.timeouts == Timeouts(connect=5, head=10, idle=60, operation=900)
    assert not config.upstreams and not config.providers and not config.hosts


def test_everything_a_file_can_say(files: Files, tmp_path: Path) -> None:
    authority = trustme.CA().cert_pem.bytes()
    (tmp_path / "ca.pem").write_bytes(b"a comment\n" + authority + authority)
    config = files.load(
        MINIMAL
        + f"""
[process]
uid = 5
[store]
url = "sqlite:"
[timeouts]
connect = "2s"
head = "3s"
idle = "1m"
operation = "2h"
[limits]
connections = 9
[upstream.github]
url = "https://github.com/"
also = ["www.github.com", "ssh.github.com:443"]
ca_file = "{tmp_path}/ca.pem"
provider = "gh"
case_insensitive = true
[provider.gh]
type = "file"
username = "x-access-token"
password_file = "/etc/gitmoat/gh.token"
[provider.sealed]
type = "vault"
[host.here]
key = "{KEY}"
"""
    )
    assert (config.uid, config.gid, config.limits.connections) == (5, 5, 9)
    assert config.timeouts == Timeouts(connect=2, head=3, idle=60, operation=7200)
    assert config.upstreams["github"] == UpstreamConfig(
        name="github",
        address=Address("github.com", 443),
        also=("www.github.com", "ssh.github.com:443"),
        authorities=(authority.replace(b"\r", b""),) * 2,
        provider="gh",
        case_insensitive=True,
        timeouts=config.timeouts,
    )
    assert config.upstreams["github"].authority == "github.com"
    assert config.providers == {
        "gh": FileProvider(username="x-access-token", password_file=Path("/etc/gitmoat/gh.token")),
        "sealed": VaultProvider(),
    }
    assert config.hosts == {"here": HostConfig((bytes(32),), Ceiling(GitBound(), EgressBound()))}


def test_files_in_the_directory_add_named_tables(files: Files) -> None:
    config = files.load(corp=UPSTREAM, host=f'[host.a]\nkey = "{KEY}"\n')
    assert config.upstreams["corp"].authority == "git.corp.example:8443"
    assert config.hosts == {"a": HostConfig((bytes(32),), Ceiling(GitBound(), EgressBound()))}


def upstream(**changes: str) -> str:
    values = {
        "url": '"https://git.example"',
        "provider": '"p"',
        "case_insensitive": "false",
    } | changes
    lines = [f"{key} = {value}" for key, value in values.items() if value]
    return "\n".join(["[upstream.up]", *lines, '[provider.p]\ntype = "vault"'])


def provider(kind: str, values: dict[str, str]) -> str:
    lines = [f"{key} = {value}" for key, value in values.items() if value]
    return "\n".join(["[provider.p]", f'type = "{kind}"', *lines])


def helper(**changes: str) -> str:
    values = {"user": '"alice"', "command": '["gh", "auth", "git-credential"]'}
    return provider("git-credential", values | changes)


def app(**changes: str) -> str:
    values = {"app_id": "5", "installation_id": "7", "private_key_file": '"/a.pem"'}
    return provider("github-app", values | changes)


def test_the_longest_name_that_a_host_may_have_is_understood(files: Files) -> None:
    name = ".".join(["a" * 63] * 3 + ["b" * 61])
    config = files.load(MINIMAL + upstream(url=f'"https://{name}:8443"', also=f'["{name}:8444"]'))
    assert config.upstreams["up"].authority == f"{name}:8443"
    assert config.upstreams["up"].also == (f"{name}:8444",)
    config = files.load(MINIMAL + app(api_url=f'"https://{name}:8443/api/v3"'))
    provider = config.providers["p"]
    assert isinstance(provider, AppProvider)
    assert provider.api_url == Api(Address(name, 8443), "/api/v3")
    config = files.load(MINIMAL + f'[egress]\nproxy = "http://{name}:3128"\n')
    assert config.egress.proxy == Address(name, 3128)
    with pytest.raises(Misconfigured, match="is not a host name"):
        files.load(MINIMAL + upstream(url=f'"https://{name}b"'))


def test_a_helper_and_an_app_are_understood(files: Files) -> None:
    config = files.load(MINIMAL + helper())
    assert config.providers["p"] == HelperProvider(
        user="alice", command=("gh", "auth", "git-credential")
    )
    config = files.load(MINIMAL + app(api_url='"https://git.example:8443/api/v3/"'))
    api = Api(Address("git.example", 8443), "/api/v3")
    assert config.providers["p"] == AppProvider(
        app_id="5", installation_id=7, private_key_file=Path("/a.pem"), api_url=api
    )
    config = files.load(MINIMAL + app(app_id='"Iv1.0123456789abcdef"'))
    assert config.providers["p"] == AppProvider(
        app_id="Iv1.0123456789abcdef", installation_id=7, private_key_file=Path("/a.pem")
    )


def test_an_upstream_behind_a_proxy_with_its_own_patience(files: Files) -> None:
    timeouts = '{ connect = "9s", idle = "20s", operation = "2m" }'
    given = upstream(proxy='"http://proxy.example:3128"', proxy_provider='"p"', timeouts=timeouts)
    found = files.load(MINIMAL + given).upstreams["up"]
    assert found.proxy == Proxy(Address("proxy.example", 3128), "p")
    assert found.timeouts == Timeouts(connect=9, head=10, idle=20, operation=120)


@pytest.mark.parametrize(
    ("setting", "asked", "sent"),
    [
        ("", False, False),
        ("", True, True),
        ('"keep"', False, False),
        ('"add"', False, True),
        ('"add"', True, True),
        ('"remove"', True, False),
        ('"remove"', False, False),
    ],
)
def test_an_upstream_is_asked_for_a_name_as_it_knows_it(
    files: Files, setting: str, asked: bool, sent: bool
) -> None:
    found = files.load(MINIMAL + upstream(git_suffix=setting)).upstreams["up"]
    where = Place("up"), RepositoryPath("acme/app")
    assert found.spelled(Push(*where, 0, asked)) == Push(*where, 0, sent)


def test_a_host_with_two_keys_and_a_ceiling(files: Files) -> None:
    text = f'[host.h]\nkey = ["{KEY}", "{OTHER}"]\nrepos = ["up:acme/**"]\npush = false\nttl = "2h"'
    (host,) = files.load(MINIMAL + text).hosts.values()
    assert host.keys == (bytes(32), b"\1" + bytes(31))
    git = GitBound((RepoPattern("up", "acme/**"),), push=False)
    assert host.ceiling == Ceiling(git, EgressBound(), ttl=7200)


@pytest.mark.parametrize(
    ("text", "ceiling"),
    [
        # Enrolled before an enrolment could name kinds of rules: as it was meant.
        ("", Ceiling(GitBound(), EgressBound())),
        ("push = false", Ceiling(GitBound(push=False), EgressBound())),
        ('allow = "any"', Ceiling(GitBound(), EgressBound())),
        ('allow = ["git"]', Ceiling(GitBound())),
        ('allow = ["egress"]', Ceiling(egress=EgressBound(private=False))),
        ('allow = ["egress"]\nprivate = true', Ceiling(egress=EgressBound())),
        ('allow = "any"\nprivate = false', Ceiling(GitBound(), EgressBound(private=False))),
        (
            'allow = ["git", "egress"]\nrepos = ["up:a/*"]\nhosts = ["*.example.com"]',
            Ceiling(
                GitBound((RepoPattern("up", "a/*"),)),
                EgressBound((HostPattern("*.example.com"),), private=False),
            ),
        ),
    ],
)
def test_an_enrolment_allows_the_kinds_of_rules_that_it_names(
    files: Files, text: str, ceiling: Ceiling
) -> None:
    (host,) = files.load(f'{MINIMAL}[host.h]\nkey = "{KEY}"\n{text}').hosts.values()
    assert host.ceiling == ceiling


def test_any_takes_in_every_kind_and_a_list_only_what_is_listed(files: Files) -> None:
    def allowed(text: str) -> set[str]:
        (host,) = files.load(f'{MINIMAL}[host.h]\nkey = "{KEY}"\n{text}').hosts.values()
        return {kind.name for kind in KINDS if getattr(host.ceiling, kind.name) is not None}

    assert allowed('allow = "any"') == {kind.name for kind in KINDS}
    assert [allowed(f'allow = ["{kind.name}"]') for kind in KINDS] == [
        {kind.name} for kind in KINDS
    ]
    assert allowed("") == {"git", "egress"}, "later kinds are not what an old enrolment meant"


@pytest.mark.parametrize(
    ("text", "key"),
    [
        ("", "version"),
        ("version = 2", "version"),
        ("version = 1", "listen.address"),
        ('version = 1\n[listen]\naddress = "localhost:1"', "listen.address"),
        ('version = 1\n[listen]\naddress = "127.0.0.1:70000"', "listen.address"),
        ('version = 1\n[listen]\naddress = "127.0.0.1"', "listen.address"),
        (MINIMAL + "surprise = 1", "listen.surprise"),
        (MINIMAL + "[surprise]", "surprise"),
        (MINIMAL + "[process]\nuid = 0", "process.uid"),
        (MINIMAL + '[process]\nuid = "x"', "process.uid"),
        (MINIMAL + '[store]\nurl = "postgresql://x"', "store.url"),
        (MINIMAL + '[timeouts]\nidle = "60"', "timeouts.idle"),
        (MINIMAL + "[timeouts]\nidle = 60", "timeouts.idle"),
        (MINIMAL + "[upstream]\nX = {}", "upstream.X"),
        (MINIMAL + "upstream = 1", "listen.upstream"),
        (MINIMAL + upstream(url=""), "upstream.up.url"),
        (MINIMAL + upstream(url='"http://git.example"'), "upstream.up.url"),
        (MINIMAL + upstream(url='"https://u@git.example"'), "upstream.up.url"),
        (MINIMAL + upstream(url='"https://git.example/path"'), "upstream.up.url"),
        (MINIMAL + upstream(url='"https://*.example"'), "upstream.up.url"),
        (MINIMAL + upstream(url='"https://GIT.example"'), "upstream.up.url"),
        (MINIMAL + upstream(url='"https://git.example:0"'), "upstream.up.url"),
        (MINIMAL + upstream(also='["*.example"]'), "upstream.up.also[0]"),
        (MINIMAL + upstream(case_insensitive=""), "upstream.up.case_insensitive"),
        (MINIMAL + upstream(case_insensitive='"no"'), "upstream.up.case_insensitive"),
        (MINIMAL + upstream(provider='"q"'), "upstream.up.provider"),
        (MINIMAL + upstream(git_suffix="true"), "upstream.up.git_suffix"),
        (MINIMAL + upstream(git_suffix='"Keep"'), "upstream.up.git_suffix"),
        (MINIMAL + upstream(proxy='"http://p"'), "upstream.up.proxy"),
        (MINIMAL + upstream(proxy='"https://p:1"'), "upstream.up.proxy"),
        (MINIMAL + upstream(proxy='"http://u:s@p:1"'), "upstream.up.proxy"),
        (MINIMAL + upstream(proxy_provider='"p"'), "upstream.up.proxy_provider"),
        (
            MINIMAL + upstream(proxy='"http://p:1"', proxy_provider='"q"'),
            "upstream.up.proxy_provider",
        ),
        (MINIMAL + upstream(timeouts='{ idle = "61s" }'), "upstream.up.timeouts.idle"),
        (MINIMAL + upstream(timeouts='{ operation = "1h" }'), "upstream.up.timeouts.operation"),
        (MINIMAL + upstream(timeouts='{ head = "1s" }'), "upstream.up.timeouts.head"),
        (MINIMAL + helper(user='"root"'), "provider.p.user"),
        (MINIMAL + helper(user='"a b"'), "provider.p.user"),
        (MINIMAL + helper(user=""), "provider.p.user"),
        (MINIMAL + helper(command='"gh auth git-credential"'), "provider.p.command"),
        (MINIMAL + helper(command="[]"), "provider.p.command"),
        (MINIMAL + helper(command='["bin/gh"]'), "provider.p.command"),
        (MINIMAL + helper(password='"x"'), "provider.p.password"),
        (MINIMAL + app(app_id="-1"), "provider.p.app_id"),
        (MINIMAL + app(app_id="true"), "provider.p.app_id"),
        (MINIMAL + app(installation_id='"7"'), "provider.p.installation_id"),
        (MINIMAL + app(private_key_file='"app.pem"'), "provider.p.private_key_file"),
        (MINIMAL + app(api_url='"http://git.example/api/v3"'), "provider.p.api_url"),
        (MINIMAL + app(api_url='"https://git.example/api?x"'), "provider.p.api_url"),
        (MINIMAL + f'[host.h]\nkey = ["{KEY}", "{OTHER}", "{THIRD}"]', "host.h.key"),
        (MINIMAL + "[host.h]\nkey = []", "host.h.key"),
        (MINIMAL + f'[host.h]\nkey = "{KEY}"\nrepos = ["no-colon"]', "host.h.repos[0]"),
        (MINIMAL + f'[host.h]\nkey = "{KEY}"\nhosts = ["192.0.2.1"]', "host.h.hosts[0]"),
        (MINIMAL + f'[host.h]\nkey = "{KEY}"\nallow = "all"', "host.h.allow"),
        (MINIMAL + f'[host.h]\nkey = "{KEY}"\nallow = []', "host.h.allow"),
        (MINIMAL + f'[host.h]\nkey = "{KEY}"\nallow = ["any"]', "host.h.allow[0]"),
        (MINIMAL + f'[host.h]\nkey = "{KEY}"\nallow = ["git"]\nprivate = true', "host.h"),
        (MINIMAL + f'[host.h]\nkey = "{KEY}"\nallow = ["git"]\nhosts = ["a.example"]', "host.h"),
        (MINIMAL + f'[host.h]\nkey = "{KEY}"\nallow = ["egress"]\npush = false', "host.h"),
        (
            MINIMAL + f'[host.g]\nkey = ["{OTHER}", "{KEY}"]\n[host.h]\nkey = "{KEY}"',
            "host.h.key",
        ),
        (MINIMAL + upstream(ca_file='"ca.pem"'), "upstream.up.ca_file"),
        (MINIMAL + upstream(ca_file='"/nonexistent/ca.pem"'), "upstream.up.ca_file"),
        (MINIMAL + upstream(surprise="1"), "upstream.up.surprise"),
        (MINIMAL + '[provider.p]\ntype = "env"', "provider.p.type"),
        (MINIMAL + '[provider.p]\ntype = "file"\nusername = "u"', "provider.p.password_file"),
        (
            MINIMAL + '[provider.p]\ntype = "file"\nusername = "a:b"\npassword_file = "/x"',
            "provider.p.username",
        ),
        (MINIMAL + '[provider.p]\ntype = "vault"\npassword = "x"', "provider.p.password"),
        (MINIMAL + '[host.h]\nkey = "short"', "host.h.key"),
        (MINIMAL + f'[host.g]\nkey = "{KEY}"\n[host.h]\nkey = "{KEY}"', "host.h.key"),
    ],
)
def test_a_fault_is_named_by_file_and_key_path(files: Files, text: str, key: str) -> None:
    with pytest.raises(Misconfigured) as caught:
        files.load(text)
    assert caught.value.key == key
    assert caught.value.code == "B104"
    assert caught.value.why.startswith(f"{files.main}: {key}: ")
    assert set(caught.value.mapping()) == {"code", "what", "why", "fix"}


@pytest.mark.parametrize(
    ("text", "why", "fix"),
    [
        (
            "[limits]\nconections = 1",
            "limits.conections: unknown key",
            "did you mean `connections`?",
        ),
        ("[timeouts]\nidle = 60", "timeouts.idle: must be text", '"90s", "30m" or "8h"'),
        ('[timeouts]\nidle = "2d"', "timeouts.idle: must be at most 1d", '"90s"'),
        ('[audit]\nsegment = "1"', "audit.segment: not a size like 64KiB", '"200MiB"'),
        ("[limits]\nqueue = true", "limits.queue: must be text", "with a unit"),
        (
            "[limits]\noperations = 0",
            "limits.operations: must be a whole number from 1 to 5000",
            "",
        ),
        (upstream(url='"http://git.example"'), "url: is not https://HOST[:PORT]", "only https"),
        (upstream(url=""), "upstream.up.url: is missing", 'url = "https://HOST[:PORT]"'),
        (upstream(case_insensitive=""), "case_insensitive: is missing", "true for GitHub"),
        ("[provider.p]", "provider.p.type: is missing", "one of: file, vault"),
        ("[host.h]", "host.h.key: is missing", "44 characters of base64"),
        ('[metrics]\naddress = "192.0.2.1:1"', "metrics.address: is not on loopback", "127.0.0.1"),
        ('[egress]\nresolvers = ["x"]', "egress.resolvers[0]: is not an IP address", "192.0.2.53"),
        (helper(user='"root"'), "provider.p.user: must not be root", "the account whose login"),
    ],
)
def test_a_fault_says_what_is_wrong_and_what_to_write(
    files: Files, text: str, why: str, fix: str
) -> None:
    with pytest.raises(Misconfigured) as caught:
        files.load(MINIMAL + text)
    assert why in caught.value.why and fix in caught.value.fix


def test_a_fault_in_an_added_file_names_that_file(files: Files) -> None:
    with pytest.raises(Misconfigured) as caught:
        files.load(extra=upstream(surprise="1"))
    assert caught.value.file == str(files.additions / "extra.toml")


def test_an_added_file_cannot_set_what_belongs_to_the_main_file(files: Files) -> None:
    with pytest.raises(Misconfigured) as caught:
        files.load(extra='[listen]\naddress = "0.0.0.0:1"\n')
    assert caught.value.key == "listen"


def test_one_name_in_two_files_is_refused(files: Files) -> None:
    with pytest.raises(Misconfigured, match="B104") as caught:
        files.load(MINIMAL + UPSTREAM, again=UPSTREAM)
    assert (caught.value.file, caught.value.key) == (
        str(files.additions / "again.toml"),
        "upstream.corp",
    )
    assert str(files.main) in caught.value.why


def test_two_upstreams_cannot_share_a_host(files: Files) -> None:
    second = UPSTREAM.replace("corp]", "other]").replace(":8443", "").replace('"git.', '"x.')
    with pytest.raises(Misconfigured) as caught:
        files.load(MINIMAL + UPSTREAM, second=second)
    assert caught.value.key == "upstream.other.url"


@pytest.mark.parametrize(
    "text",
    ["version = 1,", "version = [", "\udcff", "version = " + "1" * 5000, "a = " + "[" * 9999],
)
def test_what_is_not_toml_is_refused(files: Files, text: str) -> None:
    files.main.write_bytes(text.encode("utf-8", "surrogateescape"))
    files.main.chmod(0o640)
    with pytest.raises(Misconfigured):
        load_config(files.tree, files.main, files.additions)


@pytest.mark.parametrize("mode", [0o660, 0o646, 0o666])
def test_a_file_that_others_can_write_is_refused(files: Files, mode: int) -> None:
    files.write(files.main, MINIMAL)
    files.main.chmod(mode)
    with pytest.raises(Misconfigured, match="B104"):
        load_config(files.tree, files.main, files.additions)


def test_a_symlink_or_a_missing_file_is_refused(files: Files, tmp_path: Path) -> None:
    with pytest.raises(Misconfigured) as caught:
        load_config(files.tree, files.main, files.additions)
    assert "No such file" in caught.value.why
    files.write(tmp_path / "real.toml", MINIMAL)
    files.main.symlink_to(tmp_path / "real.toml")
    with pytest.raises(Misconfigured) as caught:
        load_config(files.tree, files.main, files.additions)
    assert "symlink" in caught.value.why


def test_a_fifo_does_not_hang_the_reader(files: Files) -> None:
    os.mkfifo(files.main)
    with pytest.raises(Misconfigured) as caught:
        load_config(files.tree, files.main, files.additions)
    assert "not a regular file" in caught.value.why
