"""README and tutorial, typed again: every command works, and says what the page shows."""

from __future__ import annotations

import re
import secrets
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest
from attrs import define, field, frozen

from hostctl.setup.configfile import create_file
from tests.stage.command import Ran
from tests.stage.gitmoat import Gitmoat
from tests.stage.instance import make_instance
from tests.stage.repositories import create_repository
from tests.stage.upstream import Upstream
from tests.waiting import PATIENCE

ROOT = Path(__file__).parents[2]
README = ROOT / "README.md"
TUTORIAL = ROOT / "docs" / "tutorial.md"
# Commands of the two pages that are not hostctl's, or not for a test to run once more.
ELSEWHERE = {
    "make demo": ".ci/run runs it",
    "make test": "it is what runs this",
    "source .venv/bin/activate": "the shell's own",
    "hostctl demo --keep": "tests/cli/test_demo.py runs the demo; the stage here is what it keeps",
    "export GITMOAT_ROOT=/tmp/gitmoat-o4av4ymv": "the stage's --root says the same",
}
_BLOCK = re.compile(r"^```console\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_REQUEST = re.compile(r"request id: (\w+)")
_DIFFERS = (
    (r"\d{4}-\d\d-\d\dT[\d:.]+Z", "TIME"),
    (r"\b[0-9a-f]{12,64}\b", "ID"),
    (r"\b\d+ records", "N records"),
    (r"\bpid \d+", "pid N"),
    (r"127\.0\.0\.1:\d{4,5}", "ADDRESS"),
)


@frozen
class Step:
    """One command of a page, the file it reads, and the lines below it."""

    line: str
    shown: tuple[str, ...]

    @property
    def words(self) -> list[str]:
        return shlex.split(self.line.partition(" < ")[0])

    @property
    def reads_a_file(self) -> bool:
        return " < " in self.line


def steps(page: Path) -> Iterator[Step]:
    for block in _BLOCK.findall(page.read_text(encoding="utf-8")):
        for part in re.split(r"^# ", block.replace("\\\n", " "), flags=re.MULTILINE)[1:]:
            line, *shown = part.splitlines()
            if line not in ELSEWHERE:
                yield Step(line, tuple(shown))


def comparable(lines: list[str]) -> list[str]:
    """Ids, times and counts differ; the two streams come in any order."""
    return sorted(_named(line.rstrip()) for line in lines)


def _named(line: str) -> str:
    for pattern, name in _DIFFERS:
        line = re.sub(pattern, name, line)
    return line


@define
class Reader:
    """Types what a page shows, in this world's names."""

    stage: Gitmoat
    names: dict[str, str]
    password: str = field(default="", repr=False)

    def here(self, text: str) -> str:
        for shown, ours in self.names.items():
            text = text.replace(shown, ours)
        return text

    def types(self, step: Step, more: tuple[str, ...] = ()) -> None:
        program, *words = (self.here(word) for word in step.words)
        assert program == "hostctl", f"say in ELSEWHERE where this is run: {step.line}"
        stdin = self.password + "\n" if step.reads_a_file else ""
        ran = self.stage.hostctl(*words, *more, stdin=stdin, timeout=PATIENCE)
        shown = [self.here(line) for line in step.shown]
        assert comparable(ran.text.splitlines()) == comparable(shown), step.line
        self._remember_requests(step, ran)

    def _remember_requests(self, step: Step, ran: Ran) -> None:
        """A later command may name the request id of an earlier answer."""
        shown, given = map(_REQUEST.findall, ("\n".join(step.shown), ran.text))
        self.names.update(zip(shown, given, strict=True))


@pytest.fixture
def fresh_machine() -> Iterator[Reader]:
    """A git server with a password, and nothing of ours but a free port to listen at."""
    root, password = make_instance().root, secrets.token_hex(16)
    upstream = Upstream(root / "upstream", password)
    stage = Gitmoat(root, upstream, "")
    try:
        upstream.start()
        yield Reader(stage, {"git.example.com": f"localhost:{upstream.port}"}, password)
    finally:
        stage.close()


def test_the_session_of_the_readme_is_what_happens(fresh_machine: Reader) -> None:
    """From the first `up`. Its server's certificate is nobody's, so one option is added."""
    stage = fresh_machine.stage
    files = {"test.sh": b"echo all tests pass\n"}
    create_repository(stage.upstream.repositories, "acme/app", files)
    ca_file = stage.paths.etc / "ca.pem"
    create_file(ca_file, stage.upstream.ca_file.read_text(encoding="ascii"), 0o644)
    done = list(steps(README))
    assert [step.words[1] for step in done][:3] == ["up", "cred", "upstream"]
    for step in done:
        adds_upstream = step.words[1:3] == ["upstream", "add"]
        fresh_machine.types(step, ("--ca-file", str(ca_file)) if adds_upstream else ())


def test_the_tutorial_is_what_happens(fresh_stage: Gitmoat) -> None:
    port = {"localhost:41277": f"localhost:{fresh_stage.upstream.port}"}
    head = {"83bbaad": fresh_stage.head[:7]}
    reader = Reader(fresh_stage, {**port, **head})
    done = list(steps(TUTORIAL))
    assert {"run", "exec", "explain", "audit", "rm"} <= {step.words[1] for step in done}
    for step in done:
        reader.types(step)


def test_no_command_of_the_pages_is_shown_where_nobody_types_it() -> None:
    """Every fenced block is a console; every line of one belongs to a command that is typed."""
    for page in (README, TUTORIAL):
        text = page.read_text(encoding="utf-8")
        blocks = _BLOCK.findall(text)
        assert len(blocks) == text.count("\n```console\n") == text.count("\n```") // 2
        assert all(block.startswith("# ") for block in blocks)
        lines = [line for block in blocks for line in block.splitlines() if line.startswith("# ")]
        assert len(lines) - len(ELSEWHERE.keys() & {line[2:] for line in lines}) == sum(
            1 for _ in steps(page)
        )


def test_what_is_run_elsewhere_is_still_shown() -> None:
    blocks = [_BLOCK.findall(page.read_text(encoding="utf-8")) for page in (README, TUTORIAL)]
    shown = "".join(text for found in blocks for text in found)
    assert [line for line in ELSEWHERE if f"# {line}\n" not in shown] == []
