"""Package managers' own files say where packages come from; what they do not say is not known."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from netpolicy.format.document import parse_policy
from netpolicy.presets.known_presets import PRESETS, expanded, preset_rules, rule_notes
from netpolicy.presets.names import PRESETS as NAMES
from netpolicy.presets.places import Answer
from tests.fakes.policies import patient


def read(name: str, files: dict[str, str]) -> Answer:
    return PRESETS[name].read(files)


def shown(found: Answer) -> list[str]:
    return [f"{place.scheme} {place.to.text}" for place in found.places]


PIP_INDEX = """
class PackageIndex: ...
PyPI = PackageIndex("https://index.example/", file_storage_domain="files.example")
TestPyPI = PackageIndex("https://test.example/", file_storage_domain="test-files.example")
"""
GEMRC = ":sources:\n- http://gem.corp.example/\n- https://more.corp.example/\n"
PIP_PATH = "/usr/lib/python3/dist-packages/pip/_internal/models/index.py"
NPM_PATH = "/usr/lib/node_modules/npm/node_modules/@npmcli/config/lib/definitions/definitions.js"
NPM_DEFAULT = """
  registry: new Definition('registry', {
    default: 'https://registry.example/',
    type: url,
"""
SUPER_POM = """<project xmlns="urn:x"><repositories><repository><id>central</id>
<url>https://central.example/maven2</url></repository></repositories></project>"""
JAR = "/usr/share/maven/lib/maven-model-builder-3.x.jar!org/apache/maven/model/pom-4.0.0.xml"
MIRROR = """<settings><mirrors>
<mirror><mirrorOf>{of}</mirrorOf><url>https://repo.corp.example/maven</url></mirror>
<mirror><mirrorOf>external:http:*</mirrorOf><url>http://0.0.0.0/</url><blocked>true</blocked></mirror>
</mirrors></settings>"""


@pytest.mark.parametrize(
    ("name", "files", "places"),
    [
        ("pip", {PIP_PATH: PIP_INDEX}, ["tls index.example:443", "tls files.example:443"]),
        (
            "pip",
            {
                "/etc/pip.conf": "[global]\nindex-url = https://u:secret@pip.corp.example/simple\n"
                "extra_index_url =\n  https://more.corp.example:8443/simple\n",
                PIP_PATH: PIP_INDEX,
            },
            ["tls pip.corp.example:443", "tls more.corp.example:8443"],
        ),
        (
            "pip",
            {
                "/etc/pip.conf": "[global]\nindex-url = https://a.example/",
                "/root/.config/pip/pip.conf": "[install]\nindex-url = http://b.example/",
            },
            ["http b.example:80"],
        ),
        ("npm", {NPM_PATH: NPM_DEFAULT}, ["tls registry.example:443"]),
        (
            "npm",
            {
                "/etc/npmrc": "; a comment\nregistry=https://npm.corp.example/\n"
                "@acme:registry = https://acme.corp.example/npm/\n//npm.corp.example/:_authToken=x",
                NPM_PATH: NPM_DEFAULT,
            },
            ["tls npm.corp.example:443", "tls acme.corp.example:443"],
        ),
        (
            "cargo",
            {
                "/root/.cargo/config.toml": '[source.crates-io]\nreplace-with = "corp"\n'
                '[source.corp]\nregistry = "sparse+https://cargo.corp.example/index/"\n'
                '[registries.mine]\nindex = "https://mine.corp.example/git"\n'
            },
            ["tls cargo.corp.example:443", "tls mine.corp.example:443"],
        ),
        (
            "go",
            {
                "/usr/lib/go-1.22/go.env": "# x\nGOPROXY=https://go.example,direct\nGOSUMDB=sum.example\n",
                "/root/.config/go/env": "GOPROXY=https://go.corp.example|off\n",
            },
            ["tls go.corp.example:443", "tls sum.example:443"],
        ),
        (
            "go",
            {"/usr/lib/go/go.env": "GOPROXY=off\nGOSUMDB=db+key https://sum.corp.example/db\n"},
            ["tls sum.corp.example:443"],
        ),
        ("maven", {JAR: SUPER_POM}, ["tls central.example:443"]),
        (
            "maven",
            {"/etc/maven/settings.xml": MIRROR.format(of="central"), JAR: SUPER_POM},
            ["tls repo.corp.example:443"],
        ),
        (
            "maven",
            {"/etc/maven/settings.xml": MIRROR.format(of="other"), JAR: SUPER_POM},
            ["tls repo.corp.example:443", "tls central.example:443"],
        ),
        (
            "gem",
            {
                "/usr/lib/ruby/3.1.0/rubygems/defaults.rb": "  def self.default_sources\n"
                "    %w[https://gems.example/]\n  end"
            },
            ["tls gems.example:443"],
        ),
        (
            "gem",
            {
                "/etc/gemrc": ":update_sources: true\n:sources:\n- https://gems.corp.example/\n"
                "- https://other.corp.example\n:verbose: true\n",
                "/usr/lib/ruby/3.1.0/rubygems/defaults.rb": "def self.default_sources\n%w[https://g.example]",
            },
            ["tls gems.corp.example:443", "tls other.corp.example:443"],
        ),
    ],
)  # fmt: skip
def test_the_tools_own_files_say_it(name: str, files: dict[str, str], places: list[str]) -> None:
    found = read(name, files)
    assert shown(found) == places
    assert all(any(place.source.startswith(path) for path in files) for place in found.places)


def test_a_password_in_a_url_goes_nowhere() -> None:
    found = read("pip", {"/etc/pip.conf": "[global]\nindex-url = https://bot:hunter2@pip.example/"})
    assert "hunter2" not in repr(found)
    (refused,) = read("npm", {"/etc/npmrc": "registry=ftp://bot:hunter2@npm.example/"}).notes
    assert "hunter2" not in refused


@pytest.mark.parametrize(
    "url", ["https://192.0.2.1/", "https://[2001:db8::1]/", "https://0x7f.1/", "https://localhost/",
            "https://ex_ample-/", "https:///x", "https://${HOST}/", "ssh://git.example/", "https://a:b:c/"],
)  # fmt: skip
def test_what_is_no_host_name_is_noted_and_opens_nothing(url: str) -> None:
    found = read("npm", {"/etc/npmrc": f"registry={url}"})
    assert not found.places
    assert [note.partition(":")[0] for note in found.notes] == ["/etc/npmrc"]


@patient
@given(st.sampled_from(NAMES), st.text(max_size=200))
def test_no_file_makes_a_reader_trip(name: str, text: str) -> None:
    for pattern in PRESETS[name].files:
        read(name, {"/" + pattern: text})


@pytest.mark.parametrize("name", NAMES)
def test_without_files_nothing_is_known(name: str) -> None:
    assert not read(name, {}).places


def test_a_compiled_in_default_is_said_to_be_one() -> None:
    (note,) = read("cargo", {}).notes
    assert "compiled into it" in note


def test_the_names_are_those_of_the_readers() -> None:
    assert tuple(PRESETS) == NAMES


def test_a_policy_gets_rules_that_say_where_they_are_from() -> None:
    policy = parse_policy('version = 1\nname = "p"\n[preset]\nuse = ["gem", "pip"]')
    answers = {
        "gem": read("gem", {"/etc/gemrc": GEMRC}),
        "pip": read("pip", {PIP_PATH: PIP_INDEX}),
    }
    after = expanded(policy, answers)
    assert after.presets == ()
    assert [(rule.id, rule.scheme, rule.ports) for rule in after.egress] == [
        ("preset-gem", "http", (80,)),
        ("preset-gem-2", "tls", (443,)),
        ("preset-pip", "tls", (443,)),
    ]
    assert rule_notes(answers)["preset-gem-2"] == ["more.corp.example: from /etc/gemrc"]
    with pytest.raises(KeyError):
        expanded(policy, {"gem": answers["gem"]})


def test_a_host_named_twice_is_in_one_rule_once() -> None:
    sources = ":sources:\n- https://x.example/1\n- https://x.example/2\n"
    twice = read("gem", {"/etc/gemrc": sources})
    (rule,) = preset_rules("gem", twice.places)
    assert [host.text for host in rule.hosts] == ["x.example"]


@pytest.mark.parametrize(
    "piece",
    ["\n", " ", "\t\n", "@a:registry=\n", "registry", "- -", ":sources:\n-",
     "[", "<a>", "a:\n ", "[a.", "\n \n", "GOPROXY=,|"],
)  # fmt: skip
@pytest.mark.parametrize("name", PRESETS)
def test_a_text_made_to_be_slow_or_deep_is_read_to_its_end(name: str, piece: str) -> None:
    """What takes time as the square of the length would not end here."""
    text = piece * ((1 << 17) // len(piece))
    paths = {file.partition("!")[0].replace("*", "x") for file in PRESETS[name].files}
    kinds = {path.rpartition(".")[2]: path for path in paths if not path.endswith(".py")}
    for path in kinds.values():
        assert PRESETS[name].read({path: text}).places == ()
