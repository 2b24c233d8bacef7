"""What users of docker type out of habit: the error says what does the same here."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from hostctl.failure import Failure

_NO_NETWORK = "a sandbox has no interface but lo: nothing outside connects to it"
_ROOT = "the command always runs as a uid of its own, without any privilege"
VERBS = {
    "build": ("images come from Docker", "docker build, then hostctl run --image IMAGE -- CMD"),
    "images": ("images come from Docker", "docker images, then hostctl run --image IMAGE -- CMD"),
    "kill": ("`stop` ends every process of a sandbox", "hostctl stop S, or rm S to remove it too"),
    "login": ("the broker has the credentials", "hostctl cred add NAME"),
    "ps": ("`ls` lists the sandboxes", "hostctl ls, and --watch for what each does now"),
    "pull": ("images come from Docker", "docker pull, then hostctl run --image IMAGE -- CMD"),
    "shell": ("a shell is a command like any other", "hostctl exec -it S -- bash"),
    "ssh": ("a shell is a command like any other", "hostctl exec -it S -- bash"),
}
_DIRECTORY = ("one directory of the host can be /workspace", "--workdir DIR[:ro], or hostctl cp")
_PORT = (_NO_NETWORK, "use it from inside: hostctl exec S -- curl http://127.0.0.1:PORT/")
_NETWORK = (
    "it reaches the hosts that are allowed by name",
    "--allow-host H[:PORT], or an [[egress]] rule of a policy",
)
_USER = (_ROOT, "leave it out; exec --as helper is for looking into the gate")
_START = ("the command starts in /workspace", "-- sh -c 'cd DIR && exec CMD'")
OPTIONS = {
    "run": {
        "--entrypoint": ("the command is what stands behind --", "-- CMD..."),
        "--env-file": ("each variable is named", "-e K=V, once for each"),
        "--mount": _DIRECTORY,
        "--net": _NETWORK,
        "--network": _NETWORK,
        "-p": _PORT,
        "--privileged": (_ROOT, "leave it out"),
        "--publish": _PORT,
        "-u": _USER,
        "--user": _USER,
        "-v": _DIRECTORY,
        "--volume": _DIRECTORY,
        "-w": _START,
    },
    "exec": {
        "--env-file": ("each variable is named", "-e K=V, once for each"),
        "--privileged": (_ROOT, "leave it out"),
        "-u": _USER,
        "--user": _USER,
    },
}


def refuse_habit(verb: str, rest: Sequence[str], known: Sequence[str]) -> None:
    """`known`: the commands that there are."""
    if verb in VERBS and verb not in known:
        raise _refused(f"there is no command {verb!r}", VERBS[verb])
    for word, following in pairwise([*rest, ""]):
        name = word.partition("=")[0]
        short = name[:2] if not name.startswith("--") else name
        hint = OPTIONS.get(verb, {}).get(short)
        if hint is not None and _is_meant(short, word, following):
            raise _refused(f"`hostctl {verb}` has no option {short}", hint)


def _is_meant(option: str, word: str, following: str) -> bool:
    """-v is an option of every command here; docker's is followed by a directory."""
    return option != "-v" or ":" in word + following or "/" in word + following


def _refused(what: str, hint: tuple[str, str]) -> Failure:
    why, fix = hint
    return Failure("C105", what, why, fix)
