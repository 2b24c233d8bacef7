"""Makes a plan of a request of hostctl: everything is checked before anything is made."""

from __future__ import annotations

import os
import re
import secrets
from collections.abc import Collection, Mapping
from typing import Any, cast

from attrs import frozen

from gitmoat.shape import (
    Misshapen,
    Shape,
    by_name,
    flag,
    in_order,
    key,
    number,
    optional,
    parsed,
    read,
    text,
)
from hostd.failures import Failed
from hostd.process.cgroups import ResourceLimits
from hostd.sandbox.bwrap import WORKSPACE
from hostd.sandbox.plan import Ours, Plan, PolicySource, Repository, Theirs
from hostd.sandbox.uids import UidRange
from hostd.sandbox.workdir import Workdir, parse_workdir
from netpolicy.author import Author, parse_author
from netpolicy.decision import Deny, decide_fetch
from netpolicy.format.document import parse_policy, policy_from_mapping
from netpolicy.format.reading import PolicyError
from netpolicy.lint import lint
from netpolicy.narrowing import adhoc_policy, narrow
from netpolicy.patterns.publicsuffix import is_shared
from netpolicy.policy import Policy, Tier
from netpolicy.rule_kind import Options
from netpolicy.upstreams import UpstreamTable, fold_host, without_userinfo

_NAME = re.compile(r"[a-z0-9][a-z0-9-]{0,39}")
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_IMAGE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._/:@-]{0,254}")
_DEFAULT_PIDS = 4096
_WORD = text(1 << 20, least=0, printable=False)  # the length limit of a request
_WORDS = in_order(_WORD, most=1 << 20)
_NUMBER = number(-(2**63), 2**63 - 1)


def _object(value: object, path: str) -> Mapping[str, Any]:
    if not isinstance(value, dict):
        raise Misshapen(path, "must be a table")
    return value


def _policy_given(value: object, path: str) -> str | Mapping[str, Any]:
    return value if isinstance(value, str) else _object(value, path)


def _cpus(value: object, path: str) -> float:
    if type(value) not in (int, float):
        raise Misshapen(path, "must be a number")
    return cast(float, value)


@frozen
class RunRequest:
    """The body of a `run` request."""

    argv: tuple[str, ...] = key(_WORDS)
    name: str | None = key(optional(_WORD), None)
    runtime: str | None = key(optional(_WORD), None)
    image: str | None = key(optional(_WORD), None)
    policy: str | Mapping[str, Any] | None = key(optional(Shape(_policy_given)), None)
    policy_name: str | None = key(optional(_WORD), None)
    repos: tuple[str, ...] = key(_WORDS, ())
    push: tuple[str, ...] = key(_WORDS, ())
    hosts: tuple[str, ...] = key(_WORDS, ())
    agent: bool = key(flag(), False)
    ttl: int | None = key(optional(_NUMBER), None)
    env: Mapping[str, str] = key(by_name(_WORD), {})
    detach: bool = key(flag(), False)
    tty: bool = key(flag(), False)
    rm: bool = key(flag(), False)
    author: Author | None = key(optional(parsed(parse_author, str)), None)
    workdir: Mapping[str, Any] | None = key(optional(Shape(_object)), None)
    memory: int | None = key(optional(_NUMBER), None)
    pids: int | None = key(optional(_NUMBER), None)
    cpus: float | None = key(optional(Shape(_cpus)), None)


def parse_run(body: Mapping[str, Any]) -> RunRequest:
    try:
        request = read(RunRequest, body)
    except Misshapen as problem:
        raise Failed("C105", "hostd does not understand this request", why=str(problem)) from None
    if not request.argv:
        raise Failed("C105", "there is no command to run", exit_code=2)
    if request.image == "":
        raise Failed("C105", "the name of the image is empty", exit_code=2)
    check_variables(request.env)
    return request


def prepared(name: str) -> RunRequest:
    """For a container of others: its policy is given when it is attached."""
    return RunRequest(argv=("-",), name=name)


def check_variables(variables: Mapping[str, str]) -> None:
    for name, value in variables.items():
        if not _VARIABLE.fullmatch(name) or "\0" in value:
            raise Failed("C105", f"{name[:40]!r} is not an environment variable", exit_code=2)


def _located(url: str, upstreams: UpstreamTable, directory: str) -> Repository:
    found = upstreams.locate(url)
    if found is None:
        bare = without_userinfo(url)
        fix = "hostctl upstream ls shows them; hostctl upstream add makes one"
        if upstreams.locate(bare) is not None:
            fix = "leave user and password out of the URL: the broker has the credential"
        raise Failed("U107", f"no upstream is configured for {bare}", fix=fix, exit_code=4)
    upstream, path = found
    typed = url if upstreams.by_name(url.partition(":")[0]) is None else upstream.url_of(path)
    return Repository(fold_host(typed), upstream, path, directory)


def _repositories(request: RunRequest, upstreams: UpstreamTable) -> tuple[Repository, ...]:
    """One repository is cloned to /workspace itself, several each to a directory below."""
    if len(request.repos) == 1:
        return (_located(request.repos[0], upstreams, WORKSPACE),)
    named = [_located(url, upstreams, WORKSPACE) for url in request.repos]
    if len({each.name for each in named}) != len(named):
        raise Failed("C105", "two repositories would be cloned to one directory", exit_code=2)
    return tuple(
        Repository(each.url, each.upstream, each.path, f"{WORKSPACE}/{each.name}") for each in named
    )


def _policy(request: RunRequest, name: str, repositories: tuple[Repository, ...]) -> Policy:
    named = tuple(each.named for each in repositories)
    options = Options(named, request.push, request.hosts, request.agent, request.ttl)
    if request.policy is None:
        return adhoc_policy(name, options)
    if request.agent:
        raise Failed(
            "C105",
            "--agent does not go with --policy",
            fix='say it in the policy: who = ["helper", "untrusted"]',
            exit_code=2,
        )
    return narrow(read_policy(request.policy), options)


def read_policy(given: str | Mapping[str, Any]) -> Policy:
    """Reads a file's text or a mapping; PolicyError if no sandbox can have such a policy."""
    policy = parse_policy(given) if isinstance(given, str) else policy_from_mapping(given)
    if policy.presets:
        raise PolicyError("preset", "is not resolved", "hostctl does that")
    for remark in lint(policy, is_shared, UpstreamTable(())):
        if remark.refused:
            what, why = "the policy is wider than it looks", f"{remark.path}: {remark.what}"
            raise Failed("P104", what, why=why, fix=remark.hint, exit_code=8)
    return policy


def _check_clonable(policy: Policy, repositories: tuple[Repository, ...]) -> None:
    for each in repositories:
        verdict = decide_fetch(
            policy, each.upstream.name, each.path, Tier.HELPER, each.upstream.case_insensitive
        )
        if isinstance(verdict, Deny):
            raise Failed(
                verdict.code,
                f"the policy does not let the git gate fetch {each.url}",
                fix='add the repository to a [[git]] rule with fetch = true and who = ["helper"]',
                exit_code=3,
            )


def _name(request: RunRequest, identifier: str, taken: Collection[str]) -> str:
    name = request.name or f"sb-{identifier[:6]}"
    if not _NAME.fullmatch(name):
        raise Failed(
            "C105",
            f"{name!r} is not a sandbox's name",
            why="it has lower-case letters, digits and '-', at most 40, a letter or digit first",
            fix="hostctl run --name fix-42 ...",
            exit_code=2,
        )
    if name in taken:
        raise Failed("R104", f"there is already a sandbox named {name}", fix=f"hostctl rm {name}")
    return name


def _limits(request: RunRequest) -> ResourceLimits:
    """A sandbox has limits below the host's resources even if the request gives none."""
    for name, value in (("memory", request.memory), ("pids", request.pids), ("cpus", request.cpus)):
        if value is not None and value <= 0:
            raise Failed("C105", f"--{name} must be greater than 0", exit_code=2)
    return ResourceLimits(
        memory=request.memory or _three_quarters_of_memory(),
        pids=request.pids or _DEFAULT_PIDS,
        cpus=request.cpus,
    )


def _workdir(request: RunRequest) -> Workdir | None:
    if request.workdir is not None and request.repos:
        raise Failed(
            "C105",
            "--repo and --workdir both say what is at /workspace",
            fix="clone into the work directory yourself, or leave one of them out",
            exit_code=2,
        )
    return parse_workdir(request.workdir)


def _three_quarters_of_memory() -> int:
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") * 3 // 4


def _ownership(request: RunRequest) -> Ours | None:
    """An image needs Docker, and Docker needs an image."""
    if request.runtime not in (None, "bwrap", "docker"):
        raise Failed("R101", f"there is no runtime {request.runtime!r}", exit_code=2)
    unfit = {"bwrap": request.image is not None, "docker": request.image is None}
    if unfit.get(request.runtime or "", False):
        raise Failed(
            "C105",
            "an image goes with the docker runtime, and the docker runtime with an image",
            fix="hostctl run --image IMAGE, or neither --image nor --runtime docker",
            exit_code=2,
        )
    if request.image is None:
        return None
    if not _IMAGE.fullmatch(request.image):
        raise Failed("C105", f"{request.image!r:.60} is not the name of an image", exit_code=2)
    return Ours(request.image)


def _source(request: RunRequest) -> PolicySource | None:
    """The installed policy that it was made from, so that it can be read again."""
    if request.policy is None or request.policy_name is None:
        return None
    return PolicySource(request.policy_name, request.push, request.hosts)


def make_plan(
    request: RunRequest,
    upstreams: UpstreamTable,
    taken: Collection[str],
    uids: UidRange,
    uid_index: int,
    *,
    author: Author | None = None,
    theirs: bool = False,
) -> Plan:
    """Raises Failed with what to change; it has no other effect. `author`: whose commits are made,
    where the request does not say."""
    ownership = Theirs() if theirs else _ownership(request)
    identifier = secrets.token_hex(6)
    name = _name(request, identifier, taken)
    repositories = _repositories(request, upstreams)
    try:
        policy = _policy(request, name, repositories)
    except PolicyError as problem:
        raise Failed("P101", str(problem), exit_code=8) from None
    _check_clonable(policy, repositories)
    return Plan(
        id=identifier,
        name=name,
        uid_index=uid_index,
        uids=uids.at(uid_index),
        policy=policy,
        upstreams=upstreams,
        repositories=repositories,
        limits=_limits(request),
        workdir=_workdir(request),
        source=_source(request),
        ownership=ownership,
        author=request.author or author or Author(),
    )
