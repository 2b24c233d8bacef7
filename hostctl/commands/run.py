"""`hostctl run`: a sandbox and a command in it; returns the command's exit code."""

from __future__ import annotations

import os
from argparse import ArgumentParser, ArgumentTypeError, Namespace
from collections.abc import Mapping

from gitmoat.paths import Paths
from hostctl.arguments import need_command
from hostctl.failure import Failure, NotReached, before_command, usage
from hostctl.output import Output
from hostctl.policies.policytext import policy_as_written, policy_path
from hostctl.run.pump import run_attached
from hostctl.run.stdio import null_ends, pipe_ends, terminal_ends, terminal_variables
from hostctl.terminal.quantities import count, cpus, duration, size

ABOUT = """\
Starts a sandbox and runs a command in it as the untrusted uid.

With --repo a clone is at /workspace before the command starts. Without --agent only the git
gate (`hostctl git`) reaches the network; with --agent the command's own git may, within
--repo and --push or the policy.

With --workdir a directory of this host is /workspace instead. Its owner's files appear as the
command's own, and what the command makes belongs to the owner; nothing is chowned. A directory
that root owns can only be read (:ro). Refused are symbolic links in its path, system and credential
directories, and a directory that another sandbox uses.

The command reaches other hosts if the policy has [[egress]] rules for them, or by TLS if
--allow-host names them.

--repo, --push, --allow-host and --ttl narrow a --policy; they never widen it."""

_REPO = "clone it to /workspace: a URL, or UPSTREAM:PATH"


def arguments(parser: ArgumentParser) -> None:
    add = parser.add_argument
    add("--policy", metavar="NAME|FILE", help="what the sandbox may do")
    add("--repo", action="append", default=[], metavar="R", help=_REPO)
    add("--push", action="append", default=[], metavar="GLOB", help="branches that may be pushed")
    add(
        "--allow-host",
        action="append",
        default=[],
        metavar="H[:PORT]",
        help="a host the command may reach by TLS",
    )
    add("--agent", action="store_true", help="the command may use git by itself")
    add("--name", metavar="N", help="the name of the sandbox")
    add("--author", type=_author, metavar="A", help="'Name <mail>': who the commits are by")
    add("--ttl", type=duration, metavar="8h", help="hard end of the session")
    add("--workdir", type=_workdir, metavar="DIR[:ro]", help="a directory to be /workspace")
    add("--memory", type=size, metavar="2g", help="the most memory of all its processes")
    add("--pids", type=count, metavar="N", help="the most processes and threads")
    add(
        "--cpus", type=cpus, metavar="C", help="the most processor time: 1.5 is one and a half CPUs"
    )
    add(
        "-e",
        "--env",
        action="append",
        default=[],
        type=variable,
        metavar="K=V",
        help="an environment variable",
    )
    add("--rm", action="store_true", help="remove the sandbox when the command ends")
    add("-i", "--interactive", action="store_true", help="pass stdin to the command")
    add("-t", "--tty", action="store_true", help="a terminal of its own, of the kind of yours")
    add("-d", "--detach", action="store_true", help="do not wait; print the sandbox's id")
    add("--image", metavar="I", help="run in this Docker image, which must be on this host")
    add("--runtime", choices=("bwrap", "docker"), help="default: docker with --image, else bwrap")


def main(args: Namespace, paths: Paths, out: Output) -> int:
    command = need_command(args)
    _refuse_misuse(args)
    policy = None
    try:
        if args.policy is not None:
            policy = policy_as_written(paths, args.policy)
        return _run(args, out, paths, run_request(args, command, policy))
    except Failure as failure:
        if isinstance(policy, str) and _policy_may_be_the_cause(failure):
            failure = _fault_in_policy(paths, args.policy, policy) or failure
        raise before_command(failure) from None


def _policy_may_be_the_cause(failure: Failure) -> bool:
    """hostd refused a policy, or could not be asked."""
    return failure.code.startswith("P") or isinstance(failure, NotReached)


def _fault_in_policy(paths: Paths, name: str, sent: str) -> Failure | None:
    """What is wrong with the policy, which names keys of its file; anything else that fails here is
    not why the run failed."""
    from hostctl.policies.policyfile import policy_mapping

    try:
        policy_mapping(paths, policy_path(paths, name), sent)
    except Failure as fault:
        return fault if fault.code.startswith("P") else None
    except Exception:  # noqa: BLE001 -- the run's own failure is reported
        return None
    return None


def run_request(
    args: Namespace, command: list[str], policy: str | Mapping[str, object] | None
) -> dict[str, object]:
    return {
        "op": "run",
        "name": args.name,
        "runtime": args.runtime,
        "image": args.image,
        "policy": policy,
        "policy_name": _installed(args.policy),
        "repos": args.repo,
        "push": args.push,
        "hosts": args.allow_host,
        "agent": args.agent,
        "ttl": args.ttl,
        "author": args.author,
        "argv": command,
        "env": {**terminal_variables(args.tty, os.environ), **dict(args.env)},
        "detach": args.detach,
        "tty": args.tty,
        "rm": args.rm,
        "workdir": args.workdir,
        "memory": args.memory,
        "pids": args.pids,
        "cpus": args.cpus,
    }


def _installed(policy: str | None) -> str | None:
    """The name of an installed policy, which `hostctl reload` reads again; a file is read once."""
    return None if policy is None or "/" in policy or policy.endswith(".toml") else policy


def _run(args: Namespace, out: Output, paths: Paths, request: dict[str, object]) -> int:
    if args.detach:
        _, started = run_attached(
            paths.hostd_socket, request, null_ends(paths.hostd_state), out.progress
        )
        sandbox = str(started.get("sandbox", ""))
        if out.json:
            out.emit({"schema": "gitmoat.run/1", "sandbox": sandbox, "name": started.get("name")})
        else:
            out.line(sandbox)
        return 0
    ends = terminal_ends(args.interactive) if args.tty else pipe_ends(args.interactive)
    code, started = run_attached(paths.hostd_socket, request, ends, out.progress)
    about = {"sandbox": started.get("sandbox"), "name": started.get("name"), "exit": code}
    out.summary({"schema": "gitmoat.run/1", **about})
    return code


def _refuse_misuse(args: Namespace) -> None:
    if args.runtime == "docker" and args.image is None:
        raise usage("the docker runtime needs an image", "hostctl run --image IMAGE -- CMD")
    if args.runtime == "bwrap" and args.image is not None:
        raise usage("an image needs the docker runtime", "leave out --image or --runtime bwrap")
    if args.detach and (args.interactive or args.tty):
        raise usage("-d cannot be combined with -i or -t", "leave one of them out")
    if args.workdir and args.repo:
        raise usage(
            "--repo and --workdir both say what is at /workspace",
            "clone into the work directory yourself, or leave one of them out",
        )
    if args.policy is not None and args.agent:
        raise usage(
            "--agent cannot be combined with --policy",
            'say it in the policy: who = ["helper", "untrusted"]',
        )
    if args.push and not args.repo and args.policy is None:
        raise usage("--push says what may be pushed, but no repository is named", "add --repo URL")


def variable(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals or not name.isidentifier() or not name.isascii() or "\0" in value:
        raise ArgumentTypeError("write K=V; values are never taken from hostctl's own environment")
    return name, value


def _author(text: str) -> str:
    from netpolicy.author import parse_author

    try:
        return str(parse_author(text))
    except ValueError as problem:
        raise ArgumentTypeError(str(problem)) from None


def _workdir(text: str) -> dict[str, object]:
    """Only made absolute: hostd refuses symbolic links, so none is followed here."""
    path = text.removesuffix(":ro")
    if not path or "\0" in path:
        raise ArgumentTypeError("write DIR, or DIR:ro to only read it")
    absolute = os.path.abspath(path)  # noqa: PTH100 -- symlinks are judged later, not resolved
    return {"path": absolute.replace("//", "/"), "read_only": text.endswith(":ro")}
