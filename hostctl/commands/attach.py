"""`hostctl attach`: a sidecar for a container that something else started."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace

from gitmoat.paths import Paths
from hostctl.control_client import ask, items_of
from hostctl.failure import Failure, usage
from hostctl.output import Output
from hostctl.setup.container_options import FORMATS
from hostctl.terminal.quantities import duration

_TIMEOUT = 120.0
_NO_CONTAINER = ("R113", "R116")  # Docker does not answer, or has none of this name
ABOUT = """\
Serves git to a container that compose, a devcontainer or an agent harness started.

  hostctl attach --prepare NAME     makes its network, and prints what to start it with
  docker run OPTIONS IMAGE ...      by anyone; git is not served yet
  hostctl attach CONTAINER ...      inspects it, and activates its session

A container that lacks one of the options is refused, with the reason. It is identified by the
network it is in, never by a name or label. When it ends, its session ends; the next one may be
attached to the same network. `hostctl rm NAME` removes the network."""


def arguments(parser: ArgumentParser) -> None:
    add = parser.add_argument
    add("container", metavar="CONTAINER", nargs="?", help="id or name in Docker")
    add("--prepare", metavar="NAME", help="make the network and print the options")
    add("--format", choices=FORMATS, help="with --prepare: for what (default: docker)")
    add("--policy", metavar="NAME|FILE", help="what the container may do")
    add("--repo", action="append", default=[], metavar="URL", help="a repository that it may use")
    add("--push", action="append", default=[], metavar="GLOB", help="branches that may be pushed")
    add("--agent", action="store_true", help="the container may use git by itself")
    add("--ttl", type=duration, metavar="8h", help="hard end of the session")


def main(args: Namespace, paths: Paths, out: Output) -> int:
    if (args.container is None) == (args.prepare is None):
        raise usage(
            "give a container, or --prepare and a name",
            "hostctl attach CONTAINER, or hostctl attach --prepare NAME",
        )
    if args.format and not args.prepare:
        raise usage("--format is for --prepare", "hostctl attach --prepare NAME --format FORMAT")
    return _prepare(args, out, paths) if args.prepare else _attach(args, out, paths)


def _prepare(args: Namespace, out: Output, paths: Paths) -> int:
    if args.policy or args.repo or args.push or args.agent or args.ttl:
        raise usage(
            "what a container may do is stated when it is attached",
            "hostctl attach --prepare NAME, later hostctl attach CONTAINER --policy ...",
        )
    request = {"op": "prepare", "name": args.prepare}
    answer = ask(paths.hostd_socket, request, out.progress, timeout=_TIMEOUT)
    options = answer.get("options")
    words = [list(map(str, option)) for option in options] if isinstance(options, list) else []
    fields = {"schema": "gitmoat.prepare/1", "sandbox": answer.get("sandbox"), "name": args.prepare}
    if out.json:
        out.emit({**fields, "options": [word for option in words for word in option]})
        return 0
    out.line(FORMATS[args.format or "docker"](args.prepare, words))
    return 0


def attach_request(args: Namespace, policy: object) -> dict[str, object]:
    return {
        "op": "attach",
        "container": args.container,
        "policy": policy,
        "repos": args.repo,
        "push": args.push,
        "agent": args.agent,
        "ttl": args.ttl,
    }


def _attach(args: Namespace, out: Output, paths: Paths) -> int:
    mapping = None
    if args.policy is not None:
        # What reads policies takes long to import, and a container may have none.
        from hostctl.policies.policyfile import load_policy_mapping

        mapping = load_policy_mapping(paths, args.policy)
    request = attach_request(args, mapping)
    try:
        answer = ask(paths.hostd_socket, request, out.progress, timeout=_TIMEOUT)
    except Failure as failure:
        if failure.code in _NO_CONTAINER and _is_sandbox(paths, args.container):
            raise _not_a_container(args.container) from None
        raise
    name = answer.get("name")
    fields = {"schema": "gitmoat.attach/1", "sandbox": answer.get("sandbox"), "name": name}
    out.result(f"{name}: {args.container} is served", fields)
    return 0


def _is_sandbox(paths: Paths, name: str) -> bool:
    sandboxes = items_of(ask(paths.hostd_socket, {"op": "ls"}))
    return any(name in (each.get("name"), each.get("sandbox")) for each in sandboxes)


def _not_a_container(name: str) -> Failure:
    what = f"{name} is a sandbox, and no container of Docker's"
    why = "`attach` serves git to a container that something else started"
    return Failure("C105", what, why, f"for a shell in it: hostctl exec -it {name} -- bash")
