"""`hostctl demo`: an offline tour; two sandboxes try what is allowed, and what is not."""

from __future__ import annotations

import re
import time
from argparse import ArgumentParser, Namespace
from collections.abc import Callable
from typing import NamedTuple

from gitmoat.paths import Paths
from hostctl.demo import agent_mode as agent
from hostctl.demo import isolation as walls
from hostctl.demo import recorded as audit
from hostctl.demo import split_mode as split
from hostctl.demo.stage import CheckFailed, Stage, close_stage, open_stage
from hostctl.failure import NOT_ENFORCED, Failure, usage
from hostctl.output import Output, need_root
from hostctl.terminal.interrupts import ignore_signals, raise_on_signals

ABOUT = """\
Sets up a git server with a password, a broker and hostd under a temporary root, runs two
sandboxes and checks sixteen promises from inside them. It works offline and touches no other file.
With --image the sandboxes are Docker containers; the image must be on this host, and have git and
python3. Exit 6 if one of the promises is not kept."""


# As `hostctl run` writes it.
_ERROR = re.compile(
    r"error: (?P<what>.*) \[(?P<code>[A-Z]\d{3})\]\nwhy: (?P<why>.*)\nfix: (?P<fix>.*)"
)


class Check(NamedTuple):
    name: str
    title: str
    run: Callable[[Stage], str]


class Outcome(NamedTuple):
    check: Check
    ok: bool
    detail: str


def arguments(parser: ArgumentParser) -> None:
    parser.add_argument("--keep", action="store_true", help="leave everything running afterwards")
    parser.add_argument("--runtime", choices=("bwrap", "docker"), help="docker needs --image")
    parser.add_argument("--image", metavar="IMAGE", default="", help="a Docker image to use")


CHECKS = (
    Check("agent-clone", "agent: git clone works", agent.clone_works),
    Check("agent-push", "agent: git push to agent/... works", agent.push_works),
    Check("agent-main", "agent: push to main is refused", agent.push_to_main_is_refused),
    Check("agent-foreign", "agent: other repositories are 404", agent.foreign_is_unknown),
    Check("split-workspace", "split: workspace before command", split.workspace_is_there),
    Check("split-no-network", "split: command has no git network", split.command_has_no_network),
    Check("split-gate-push", "split: the gate pushes its commit", split.gate_pushes),
    Check("cred-socket", "credential socket refuses the command", walls.credential_socket_refuses),
    Check("helper-port", "port 418 refuses the command", walls.helper_port_refuses),
    Check("egress", "no direct connection out", walls.no_way_out),
    Check("no-secret", "the password is nowhere", walls.password_is_nowhere),
    Check("token", "a stolen helper token is worthless", walls.token_is_worthless),
    Check("sidecar", "the sidecar cannot open connections", walls.sidecar_cannot_connect),
    Check("sidecar-killed", "killing the sidecar loses nothing", agent.killed_sidecar),
    Check("revoke", "a revoked session is refused", agent.revoked_session_is_refused),
    Check("audit", "the audit records it all and verifies", audit.audit_tells_all),
)


def main(args: Namespace, paths: Paths, out: Output) -> int:
    _check_runtime(args)
    need_root("`hostctl demo`")
    begun = time.monotonic()
    raise_on_signals()
    stage = open_stage(out, args.keep)
    stage.image = args.image
    finished = False
    try:
        check_image(stage)
        outcomes = perform(stage, out)
        finished = True
    finally:
        if args.keep and finished:
            _show_kept(stage, out)
        else:
            ignore_signals()
            out.progress("cleaning up ...")
            close_stage(stage)
    return report(outcomes, time.monotonic() - begun, out)


def _check_runtime(args: Namespace) -> None:
    if args.runtime == "docker" and not args.image:
        fix = "`hostctl demo --image IMAGE`, with an image of yours that has git and python3"
        raise usage("the demo in containers needs an image", fix)
    if args.runtime == "bwrap" and args.image:
        raise usage("--image is for Docker, and --runtime bwrap is not", "leave one of them out")


def check_image(stage: Stage) -> None:
    """One failure that says what is wrong, not sixteen that follow from it."""
    if not stage.image:
        return
    has_both = "command -v git && command -v python3"
    ran = stage.hostctl("run", "--rm", "--image", stage.image, "--", "/bin/sh", "-c", has_both)
    told = _ERROR.search(ran.err)
    if told is not None:
        raise Failure(told["code"], told["what"], told["why"], told["fix"])
    if ran.code != 0:
        what = f"the image {stage.image} lacks git or python3"
        raise usage(what, "name one that has them, for `hostctl demo --image`")


def perform(stage: Stage, out: Output) -> list[Outcome]:
    outcomes = []
    for number, check in enumerate(CHECKS, 1):
        outcome = _try(check, stage)
        outcomes.append(outcome)
        if not out.json:
            out.line(line(number, outcome, out))
    return outcomes


def _try(check: Check, stage: Stage) -> Outcome:
    try:
        return Outcome(check, True, check.run(stage))
    except Failure as problem:
        return Outcome(check, False, problem.what)
    except CheckFailed as problem:
        return Outcome(check, False, str(problem))
    except Exception as problem:  # noqa: BLE001 -- a check that breaks is a check that fails
        return Outcome(check, False, f"{type(problem).__name__}: {problem}")


def line(number: int, outcome: Outcome, out: Output) -> str:
    good, bad = ("✓", "✗") if out.can_show("✓✗") else ("[ok]  ", "[FAIL]")
    mark = out.good(good) if outcome.ok else out.bad(bad)
    detail = out.dim(outcome.detail) if outcome.ok else outcome.detail
    return f"{mark} {number:>2}  {outcome.check.title:<38} {detail}"


def report(outcomes: list[Outcome], seconds: float, out: Output) -> int:
    failed = [outcome for outcome in outcomes if not outcome.ok]
    passed = len(outcomes) - len(failed)
    if out.json:
        entries = [{"name": o.check.name, "ok": o.ok, "detail": o.detail} for o in outcomes]
        counts = {"passed": passed, "failed": len(failed)}
        out.emit({"schema": "gitmoat.demo/1", "checks": entries, **counts})
    elif failed:
        out.line(out.bad(f"{len(failed)} of {len(outcomes)} checks failed"))
    else:
        out.line(out.good(f"all {passed} checks passed") + f" in {seconds:.0f} s")
    return NOT_ENFORCED if failed else 0


def _show_kept(stage: Stage, out: Output) -> None:
    out.progress("kept running; examine it with:")
    out.progress(f"  hostctl --root {stage.root} ls")
    out.progress("and end it with:")
    end = f"hostctl --root {stage.root} down; kill {stage.upstream.pid}; rm -r {stage.root}"
    out.progress(f"  {end}")
