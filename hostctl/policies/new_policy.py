"""`hostctl policy init`: a new policy from a few answers, checked before it is written."""

from __future__ import annotations

import os
from argparse import Namespace
from pathlib import Path

from attrs import evolve, frozen

from gitmoat.identity.control_socket import ControlSocketError, make_private_directory
from gitmoat.paths import Paths
from hostctl.failure import Failure, usage
from hostctl.output import Output
from hostctl.policies.policyfile import invalid_policy
from hostctl.policies.upstreamtable import known_upstreams, repository_of
from hostctl.setup.configfile import create_file
from hostctl.terminal.questions import ask, ask_list, ask_yes, is_interactive
from netpolicy.expectations import run_tests
from netpolicy.format.document import PolicyError, parse_policy
from netpolicy.format.toml_text import table_lines
from netpolicy.format.units import format_duration
from netpolicy.patterns.matchers import BadPattern, parse_branch_pattern, parse_repo_pattern
from netpolicy.policy import Policy, Session
from netpolicy.upstreams import UpstreamTable

_DEFAULT_NAME = "agents"
_DEFAULT_PUSH = "agent/**"
_NONE = "none"
_PROTECTED = ("main", "master")


@frozen
class Answers:
    name: str
    repos: list[str]
    push: list[str]
    agent: bool
    ttl: int


def main(args: Namespace, paths: Paths, out: Output) -> int:
    answers = _answers(args, paths)
    text = policy_text(answers)
    path = _place(args, paths, answers.name)
    policy = _checked(text, path)
    if path is None:
        out.line(text.rstrip("\n"))
        return 0
    _write(paths, path, text)
    fields = {"name": answers.name, "file": str(path), "tests": len(policy.tests)}
    out.result(f"wrote {path}", {"schema": "gitmoat.policy-init/1", **fields})
    out.progress(f"next: hostctl run --policy {_called(args, path)} --repo URL -- CMD")
    return 0


def _answers(args: Namespace, paths: Paths) -> Answers:
    upstreams = known_upstreams(paths)
    asking = is_interactive() and not args.repo
    given = _asked(args, paths, upstreams) if asking else _given(args)
    if not given.repos:
        raise usage("no repository is named", "add --repo UPSTREAM:PATH, or answer on a terminal")
    return evolve(given, repos=[_pattern(repo, upstreams) for repo in given.repos])


def _given(args: Namespace) -> Answers:
    return Answers(args.name or _DEFAULT_NAME, args.repo, args.push, args.agent, _ttl(args))


def _asked(args: Namespace, paths: Paths, upstreams: UpstreamTable) -> Answers:
    """Asks for what the options do not say; each answer is checked at once, and asked for again."""
    name = args.name or ask("name of the policy", _DEFAULT_NAME, lambda n: _new(args, paths, n))
    known = ", ".join(each.name for each in upstreams.upstreams) or "none yet"
    question = f"repositories, as UPSTREAM:PATH or URL (upstreams: {known})"
    repos = ask_list(question, check=lambda repo: _pattern(repo, upstreams))
    push = args.push or ask_list("branches it may push, or none", _DEFAULT_PUSH, _branch)
    agent = args.agent or ask_yes("may the command use git by itself?", default=False)
    return Answers(name, repos, [] if push == [_NONE] else push, agent, _ttl(args))


def _ttl(args: Namespace) -> int:
    return args.ttl or Session().ttl


def _new(args: Namespace, paths: Paths, name: str) -> None:
    """A name that a policy can have, and that is not taken."""
    path = _place(args, paths, name)
    _checked(policy_text(Answers(name, ["upstream:path"], [], False, _ttl(args))), path)
    if path is not None and os.path.lexists(path):
        raise _exists(path)


def _pattern(repo: str, upstreams: UpstreamTable) -> str:
    try:
        return str(parse_repo_pattern(":".join(repository_of(repo, upstreams))).text)
    except BadPattern as problem:
        what = f"{repo!r} is not a repository: {problem.what}"
        raise usage(what, problem.hint or "write upstream:path, or a URL") from None


def _branch(glob: str) -> None:
    try:
        parse_branch_pattern(_DEFAULT_PUSH if glob == _NONE else glob)
    except BadPattern as problem:
        what = f"{glob!r} is not a branch: {problem.what}"
        raise usage(what, problem.hint or "write main, or agent/**") from None


def policy_text(answers: Answers) -> str:
    """The file, with a comment on each part."""
    who = ["helper", "untrusted"] if answers.agent else ["helper"]
    push = {"push": {"branches": answers.push}} if answers.push else {}
    rule = {"id": "work", "repos": answers.repos, "fetch": True, **push, "who": who}
    blocks = [
        [
            "# What a sandbox may do. What is not named here is denied.",
            f"# hostctl policy check {answers.name}    tries the tests at the end",
            "version = 1",
            f'name = "{answers.name}"',
        ],
        ["[session]", f'ttl = "{format_duration(answers.ttl)}"  # a hard end'],
        table_lines(
            "git",
            rule,
            ["helper: `hostctl git`, driven by the owner. untrusted: the command's own git."],
        ),
        *_tests(answers),
    ]
    return "\n\n".join("\n".join(block) for block in blocks) + "\n"


def _tests(answers: Answers) -> list[list[str]]:
    repository = answers.repos[0].replace("**", "x").replace("*", "x")
    tests: list[dict[str, object]] = [{"expect": "allow", "fetch": repository}]
    protected = next((name for name in _PROTECTED if name not in answers.push), None)
    if protected and not any("*" in glob.partition("/")[0] for glob in answers.push):
        tests.append({"expect": "deny", "push": f"{repository} refs/heads/{protected}"})
    if not answers.agent:
        tests.append({"expect": "deny", "who": "untrusted", "fetch": repository})
    return [table_lines("test", test) for test in tests]


def _checked(text: str, path: Path | None) -> Policy:
    try:
        policy = parse_policy(text)
    except PolicyError as error:
        raise invalid_policy(path or Path("-"), error) from None
    failures = run_tests(policy)
    if failures:
        raise Failure("P103", "the new policy does not pass its own tests", failures[0].what)
    return policy


def _place(args: Namespace, paths: Paths, name: str) -> Path | None:
    if args.write == "-":
        return None
    return Path(args.write) if args.write else paths.policies / f"{name}.toml"


def _called(args: Namespace, path: Path) -> str:
    return str(path) if args.write else path.stem


def _exists(path: Path) -> Failure:
    fix = "choose another name, or change that file with an editor"
    return Failure("C109", f"{path} exists already", fix=fix)


def _write(paths: Paths, path: Path, text: str) -> None:
    try:
        if path.parent == paths.policies:
            make_private_directory(paths.policies, 0o755, 0, 0, root=paths.root)
        if not create_file(path, text, 0o644, os.getegid()):
            raise _exists(path)
    except ControlSocketError as error:
        raise Failure(error.code, "the policy cannot be written", error.what, error.fix) from None
    except OSError as error:
        fix = "choose a place you may write to with --write, or use sudo"
        raise Failure("C102", f"{path} cannot be written", error.strerror or "", fix) from None
