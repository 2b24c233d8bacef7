"""What is refused is refused in git's own shapes, with words that help, and nothing is done."""

from __future__ import annotations

import re

import pytest
from attrs import frozen

from tests.fakes.long_cases import one_in
from tests.fidelity.arena import Arena
from tests.fidelity.refusals import PUSHES, REFUSED, Refused
from tests.fidelity.ways import Job, Outcome, perform, selected, side_by_side, upstream_state
from tests.stage.gitmoat import Gitmoat
from tests.stage.upstream import LoggedRequest

TIERS = ("agent", "helper")
CASES = [
    *(pytest.param(each, "agent", id=f"{each.name}-agent") for each in REFUSED),
    *one_in(2, (pytest.param(each, "helper", id=f"{each.name}-helper") for each in REFUSED)),
]
# What other tests look at too.
COMPARED = [
    (each, tier)
    for each in REFUSED
    for tier in TIERS
    if each.name in ("branch", "clone", "clone-unknown")
]


@frozen
class Tried:
    outcome: Outcome
    before: str
    reached: list[str]


@pytest.fixture(scope="module")
def tried(arena: Arena, request: pytest.FixtureRequest) -> dict[tuple[str, str], Tried]:
    work: dict[str, dict[str, Job]] = {tier: {} for tier in TIERS}
    for refused, tier in [*COMPARED, *selected(request, REFUSAL, "refused", "tier")]:
        if refused.name not in work[tier]:
            work[tier][refused.name] = Job(refused.script, provide(arena, refused, tier))
    before = {
        job.repository: upstream_state(arena.stage, job.repository)
        for jobs in work.values()
        for job in jobs.values()
    }
    done = side_by_side(arena.ways, {tier: list(jobs.values()) for tier, jobs in work.items()})
    log = arena.stage.upstream.log()
    return {
        (name, tier): Tried(outcome, before[job.repository], reached(log, job.repository))
        for tier, jobs in work.items()
        for (name, job), outcome in zip(jobs.items(), done[tier], strict=True)
    }


def provide(arena: Arena, refused: Refused, tier: str) -> str:
    repository = f"{refused.place}/{tier}-{refused.name}"
    if refused.name == "submodule":
        hidden = f"{arena.stage.upstream.url}/hidden/one.git"
        arena.templates.with_modules(repository, {"sub": hidden})
    else:
        arena.templates.copy("plain", repository)
    return repository


def reached(log: list[LoggedRequest], repository: str) -> list[str]:
    """The endpoints of this repository that were asked for upstream."""
    prefix = f"/{repository}.git/"
    targets = [entry.request.split(" ")[1] for entry in log]
    return [target.removeprefix(prefix) for target in targets if target.startswith(prefix)]


@pytest.mark.parametrize(("refused", "tier"), CASES)
def test_refusal_is_shown_and_nothing_is_done(
    tried: dict[tuple[str, str], Tried], refused: Refused, tier: str
) -> None:
    one = tried[refused.name, tier]
    assert one.outcome.code == refused.code, one.outcome.err
    for text in refused.shows:
        assert text in one.outcome.err, one.outcome.err
    assert "Everything up-to-date" not in one.outcome.err
    assert one.outcome.upstream == one.before
    pushes = [each for each in one.reached if "receive-pack" in each]
    assert pushes == [each for each in refused.reaches if "receive-pack" in each]
    if refused not in PUSHES:
        assert one.reached == list(refused.reaches)


REFUSAL = test_refusal_is_shown_and_nothing_is_done.__name__


def test_every_refusal_has_a_request_id_that_explains_it(
    arena: Arena, tried: dict[tuple[str, str], Tried]
) -> None:
    shown = tried["branch", "agent"].outcome.err
    found = re.search(r"request id: ([0-9a-f]{16})\b", shown)
    assert found is not None
    explained = arena.stage.hostctl("explain", found[1]).expect_success("explain")
    assert "G201" in explained and "refs/heads/main" in explained


def test_hidden_and_missing_repositories_are_told_apart_by_nothing(
    arena: Arena, tried: dict[tuple[str, str], Tried]
) -> None:
    """By the sandbox; the owner is told which of the two it is."""
    for tier in TIERS:
        hidden, missing = tried["clone", tier].outcome, tried["clone-unknown", tier].outcome
        lines = told(missing.err, arena.stage, tier).splitlines()
        owners = [line for line in lines if "our credential cannot see it" in line]
        assert len(owners) == (tier == "helper")
        rest = [line for line in lines if line not in owners]
        assert told(hidden.err, arena.stage, tier).splitlines() == rest


def told(text: str, stage: Gitmoat, tier: str) -> str:
    text = re.sub(r"request id: \w+", "request id: ID", text)
    return text.replace(f"hidden/{tier}-clone", "NAME").replace("COPY/nothing", "NAME")


def test_push_options_that_policy_allows_arrive_byte_for_byte(arena: Arena) -> None:
    repository = "optional/options"
    arena.templates.copy("plain", repository)
    bare = arena.stage.upstream.repositories / f"{repository}.git"
    hook = bare / "hooks" / "post-receive"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text(
        "#!/bin/sh\ncat >/dev/null\n"
        'printf "%s|" "$GIT_PUSH_OPTION_COUNT" "$GIT_PUSH_OPTION_0" "$GIT_PUSH_OPTION_1" > heard\n'
    )
    hook.chmod(0o755)
    push = "git clone -q $URL c && commit c new && git -C c push -q"
    script = f"{push} -o ci.skip -o 'title=a \"b\" c;$d Zoë' origin HEAD:agent/x"
    (outcome,) = perform(arena.ways["agent"], [Job(script, repository)])
    assert outcome.code == 0, outcome.err
    assert (bare / "heard").read_text() == '2|ci.skip|title=a "b" c;$d Zoë|'


def test_headers_a_sandbox_adds_change_nothing_and_go_nowhere(arena: Arena) -> None:
    """That they go nowhere is seen at the broker and upstream in tests/smuggling."""
    added = ["Authorization: Basic eDp5", "Cookie: a=b", "X-Forwarded-For: 1.2.3.4", "Forwarded: x"]
    options = " ".join(f"-c http.extraHeader='{each}'" for each in added)
    script = f"git {options} ls-remote $URL main && git ls-remote ${{URL%.git}} main"
    (outcome,) = perform(arena.ways["agent"], [Job(script, "agent/source")])
    assert outcome.code == 0, outcome.err
    assert outcome.out.count("refs/heads/main") == 2
