"""The documentation is checked like code: what it names must exist, what it shows must parse."""

from __future__ import annotations

import re
import shlex
import textwrap
from argparse import ArgumentParser, _SubParsersAction
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import pytest
from attrs import frozen

from broker.config.files import load_config
from broker.config.tree import open_tree
from gitmoat.codes import CODES
from hostctl.__main__ import main as hostctl
from hostctl.arguments import VERBS, parse, verb_parser
from hostctl.help.gone import GONE
from hostd.config import parse_config
from netpolicy.expectations import run_tests
from netpolicy.format.document import parse_policy
from tests.stage.sources import ROOT, files
from tools import reference
from tools.size import PARTS

README = ROOT / "README.md"
CONTRIBUTING = ROOT / "CONTRIBUTING.md"
SECURITY = ROOT / "SECURITY.md"
TROUBLE = ROOT / "docs" / "howto" / "troubleshooting.md"
CHANGELOG = ROOT / "CHANGELOG.md"  # also names what earlier versions had
# Written by docs/conf.py at each build, out of the code.
_MADE_TABLES = ROOT / "docs" / "reference" / "made"
_MADE = (ROOT / "docs" / "reference" / "cli", _MADE_TABLES)
PAGES = sorted(
    page
    for page in (README, CONTRIBUTING, SECURITY, CHANGELOG, *files(ROOT / "docs", "*.md"))
    if page.parent not in _MADE
)
POLICIES = files(ROOT / "examples" / "policies", "*.toml")
BROKER_EXAMPLES = files(ROOT / "examples" / "broker", "*.toml")
DECISIONS = files(ROOT / "docs" / "decisions", "*.md")

_LINK = re.compile(r"\[[^\]]*\]\(([^)#\s]*)(?:#([^)\s]*))?\)")
_FENCE = re.compile(r"^( *)```(\w*)\n(.*?)^\1```$", re.MULTILINE | re.DOTALL)
_TOCTREE = re.compile(r"^```\{toctree\}\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_CODE = re.compile(r"\b[GHSPUBNRCE][1-9][0-9]{2}\b")
_SPAN = re.compile(r"`([^`\n]+)`")
_OWN_FILE = re.compile(
    r"(?:[\w.-]+/)*[\w.-]+\.(?:py|md|toml|txt|lock|cfg)|Makefile|LICENSE|\.ci/\w+"
)
_ELSEWHERE = ("broker.toml", "hostd.toml", "token.txt")  # on a host, not here
_PLACE = "NAME"  # of a file that the reader is to make


@frozen
class Shown:
    """A command as a page shows it."""

    page: str
    line: str

    def words(self) -> list[str]:
        words = shlex.split(self.line)[1:]
        redirected = [place for place, word in enumerate(words) if word in ("<", ">", ">>")]
        return words[: min(redirected, default=len(words))]


def text_of(page: Path) -> str:
    return page.read_text(encoding="utf-8")


def name_of(page: Path) -> str:
    return str(page.relative_to(ROOT))


def blocks_of(page: Path) -> list[tuple[str, str]]:
    """Kind and text of each fenced block, also of those in lists."""
    found = _FENCE.findall(text_of(page))
    return [(kind, textwrap.dedent(block)) for _, kind, block in found]


def prose_of(page: Path) -> str:
    return _FENCE.sub("", text_of(page))


def shown_commands(page: Path) -> Iterator[Shown]:
    """The `# hostctl ...` lines of console blocks, continued ones joined."""
    for kind, block in blocks_of(page):
        if kind == "console":
            for line in block.replace("\\\n", " ").splitlines():
                if line.startswith("# hostctl "):
                    yield Shown(name_of(page), line.removeprefix("# "))


COMMANDS = [each for page in PAGES for each in shown_commands(page)]


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_no_page_names_a_code_that_does_not_exist(page: Path) -> None:
    assert set(_CODE.findall(text_of(page))) <= set(CODES)


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_links_lead_somewhere(page: Path) -> None:
    for target, anchor in _LINK.findall(prose_of(page)):
        if target.startswith(("http://", "https://")):
            continue
        found = (page.parent / target).resolve() if target else page
        made = found.parent == _MADE_TABLES and found.name in reference.made()
        assert made or found.exists(), f"{name_of(page)}: {target}"
        assert not anchor or anchor in anchors_of(found), f"{name_of(page)}: {target}#{anchor}"


def anchors_of(page: Path) -> set[str]:
    heads = re.findall(r"^#+ (.+)$", prose_of(page), re.MULTILINE)
    plain = [re.sub(r"[^\w\- ]", "", head.lower()) for head in heads]
    return {head.replace(" ", "-") for head in plain}


def test_every_page_of_docs_is_in_a_table_of_contents() -> None:
    """Else the site's build fails, which takes longer to find out."""
    docs = ROOT / "docs"
    listed = {docs / "index.md"}
    for page in PAGES:
        for block in _TOCTREE.findall(text_of(page)):
            for name in filter(None, (line.strip() for line in block.splitlines())):
                listed |= {path.resolve() for path in page.parent.glob(f"{name}.md")}
    unlisted = [name_of(page) for page in PAGES if docs in page.parents and page not in listed]
    assert unlisted == [], (
        "add it to the toctree of docs/howto, docs/reference or docs/explanation.md"
    )


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_files_named_in_prose_exist(page: Path) -> None:
    for span in _SPAN.findall(prose_of(page)):
        if _OWN_FILE.fullmatch(span) and _PLACE not in span and not span.endswith(_ELSEWHERE):
            assert (ROOT / span).exists(), f"{name_of(page)}: {span}"


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_make_targets_that_a_page_names_exist(page: Path) -> None:
    rules = set(re.findall(r"^([a-z-]+):", text_of(ROOT / "Makefile"), re.MULTILINE))
    named = set(re.findall(r"(?:^|`|[#$] )make ([a-z-]+)", text_of(page), re.MULTILINE))
    assert page == CHANGELOG or named <= rules
    assert page != README or {"demo", "test"} <= named


def test_the_page_about_trouble_has_a_row_for_every_family_of_codes() -> None:
    rows = re.findall(r"^\| ([^|]+) \|", text_of(TROUBLE), re.MULTILINE)
    found = {code[:2] for row in rows for code in re.findall(r"[A-Z]\d{3}|[A-Z]\dxx", row)}
    assert found == set(reference.CODE_FAMILIES)


def test_the_address_for_reports_is_a_marked_blank() -> None:
    """Whoever publishes fills it in, and takes this test out; nobody invents one."""
    assert "[ADDRESS FOR REPORTS" in text_of(SECURITY)


def test_the_architecture_page_has_a_row_for_every_part() -> None:
    _, heading, table = text_of(ROOT / "docs" / "architecture.md").partition("## Packages\n")
    rows = re.findall(r"^\| `([\w/]+)/` \| (\w+) \|", table, re.MULTILINE)
    assert heading and {kind for _, kind in rows} == {"program", "helper", "pure", "edge"}
    assert sorted(folder.replace("/", ".") for folder, _ in rows) == sorted(PARTS)


def test_the_readme_shows_the_whole_way() -> None:
    shown = [each.words()[0] for each in COMMANDS if each.page == "README.md"]
    for verb in ("up", "cred", "upstream", "run", "exec", "git", "session", "audit"):
        assert verb in shown


@pytest.mark.parametrize("shown", COMMANDS, ids=lambda each: f"{each.page}: {each.line[:40]}")
def test_every_command_shown_is_one_that_hostctl_understands(shown: Shown) -> None:
    """Raises Failure for an unknown verb, action or option; `need_command` is checked too."""
    args = parse(shown.words(), "/")
    assert args.verb not in ("run", "exec", "git") or args.command


def parsers_below(parser: ArgumentParser) -> Mapping[str, ArgumentParser]:
    found = [each.choices for each in parser._actions if isinstance(each, _SubParsersAction)]
    return found[0] if found else {}


def actions_of(verb: str) -> Mapping[str, ArgumentParser]:
    return parsers_below(verb_parser(verb)) if verb in VERBS else {}


ACTING = {verb for verb in VERBS if actions_of(verb)}


def options_of(words: Sequence[str]) -> set[str]:
    """Of a verb, or of its action, which takes the verb's place."""
    parser = verb_parser(words[0])
    parser = parsers_below(parser).get(words[1], parser) if len(words) > 1 else parser
    return {option for each in parser._actions for option in each.option_strings}


def unknown_options(line: str) -> set[str]:
    """Of `hostctl VERB ...`, up to the command that runs in a sandbox."""
    words = line.partition(" -- ")[0].split()[1:]
    if not words or words[0] not in VERBS:
        return set()
    named = {word.partition("=")[0] for word in words if re.match(r"--?[a-z]", word)}
    return named - options_of(words) - {"-it", "-vv"}


def verbs_named() -> list[tuple[str, ...]]:
    """`hostctl VERB` and `hostctl VERB ACTION` in the running text of every page we write."""
    found: set[tuple[str, ...]] = set()
    for page in PAGES:
        for span in _SPAN.findall(prose_of(page)):
            words = span.split()
            if words[:1] == ["hostctl"] and len(words) > 1 and words[1].isalpha():
                acting = words[1] in ACTING and words[2:3] != [] and words[2].islower()
                named = tuple(words[1 : 3 if acting else 2])
                if page != CHANGELOG or " ".join(named) not in GONE:
                    found.add(named)
    return sorted(found)


@pytest.mark.parametrize("words", verbs_named(), ids=" ".join)
def test_every_verb_named_has_a_help(
    words: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        hostctl([*words, "--help"])
    assert ended.value.code == 0
    assert "usage: hostctl" in capsys.readouterr().out


@pytest.mark.parametrize("page", sorted({*PAGES} - {CHANGELOG}), ids=name_of)
def test_options_named_in_prose_are_those_of_their_verb(page: Path) -> None:
    for span in _SPAN.findall(prose_of(page)):
        if span.startswith("hostctl "):
            assert unknown_options(span) == set(), span


def test_what_a_fix_tells_to_type_exists() -> None:
    assert unknown_options("hostctl ls --no-such --watch") == {"--no-such"}
    typed = [line for code in CODES.values() for line in _SPAN.findall(code.fix)]
    lines = [line for line in typed if line.startswith("hostctl ")]
    assert len(lines) > 10
    for line in lines:
        assert line.split()[1] in VERBS or line.startswith("hostctl COMMAND"), line
        assert unknown_options(line) == set(), line
        below = actions_of(line.split()[1])
        assert not below or line.split()[2] in below, line


@pytest.mark.parametrize("path", POLICIES, ids=name_of)
def test_example_policies_are_valid_and_their_tests_hold(path: Path) -> None:
    policy = parse_policy(text_of(path))
    assert policy.tests
    assert run_tests(policy) == []
    assert policy.name == path.stem


def policies_shown() -> list[tuple[str, str]]:
    blocks = [(name_of(page), *found) for page in PAGES for found in blocks_of(page)]
    return [(page, text) for page, kind, text in blocks if kind == "toml" and "[[git]]" in text]


@pytest.mark.parametrize(("page", "text"), policies_shown())
def test_policies_shown_in_pages_are_valid(page: str, text: str) -> None:
    assert run_tests(parse_policy(text)) == [], page


def toml_blocks() -> list[str]:
    page = ROOT / "docs" / "configuration.md"
    return [block for kind, block in blocks_of(page) if kind == "toml"]


def test_the_broker_configuration_shown_is_accepted(tmp_path: Path) -> None:
    authority = tmp_path / "ca.pem"
    authority.write_text("-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n")
    shown = toml_blocks()[0].replace("/etc/gitmoat/example-ca.pem", str(authority))
    main = tmp_path / "broker.toml"
    main.write_text(shown)
    main.chmod(0o640)
    config = load_config(open_tree(tmp_path), main, tmp_path / "broker.d")
    assert set(config.upstreams) == {"example"}
    assert set(config.providers) == {"bot", "deploy", "me", "app"}


@pytest.mark.parametrize("example", BROKER_EXAMPLES, ids=name_of)
def test_example_configurations_of_the_broker_are_accepted(example: Path, tmp_path: Path) -> None:
    authority = tmp_path / "ca.pem"
    authority.write_text("-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n")
    main, more = tmp_path / "broker.toml", tmp_path / "broker.d" / example.name
    more.parent.mkdir()
    main.write_text('version = 1\n[listen]\naddress = "127.0.0.1:8443"\n')
    more.write_text(text_of(example).replace("/etc/gitmoat/example-ca.pem", str(authority)))
    for path in (main, more):
        path.chmod(0o640)
    assert load_config(open_tree(tmp_path), main, more.parent).upstreams


def test_the_hostd_configuration_shown_is_accepted() -> None:
    assert parse_config(Path("hostd.toml"), toml_blocks()[1]).host == "local"


def test_decisions_are_numbered_without_a_gap_and_have_the_same_parts() -> None:
    assert [int(page.name[:4]) for page in DECISIONS] == list(range(1, len(DECISIONS) + 1))
    for page in DECISIONS:
        heads = re.findall(r"^## (.+)$", text_of(page), re.MULTILINE)
        assert heads == ["Context", "Decision", "Consequences"], page.name


def test_the_changelog_knows_this_version() -> None:
    version = re.search(r"^version = (\S+)$", text_of(ROOT / "setup.cfg"), re.MULTILINE)
    assert version is not None
    assert f"## [{version[1]}]" in text_of(CHANGELOG)
