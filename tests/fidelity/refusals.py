"""What policy or this version refuses, as scripts, and what git then tells its user."""

from __future__ import annotations

from attrs import frozen

_NEW = "git clone -q $URL c && git -C c checkout -q -b agent/x && commit c new &&"
_BIG = "big c/big 3000000 && git -C c add big && git -C c commit -qm big &&"
_GPG = r"""printf '%s\n' '#!/bin/sh' 'cat >/dev/null' 'echo "[GNUPG:] SIG_CREATED " >&2' \
  'printf "%s\n" "-----BEGIN PGP SIGNATURE-----" "" x "-----END PGP SIGNATURE-----"' > gpg
chmod 755 gpg; git -C c config gpg.program "$WORK/gpg"; git -C c config user.signingKey x
"""
_NOT_HERE = "remote: gitmoat: this repository is not available here (G101)"
_NOT_REF = "remote: gitmoat: pushing to this ref is not allowed (G201)"
_SCOPE = "remote: allowed: demo:strict/*: fetch; push agent/**"


@frozen
class Refused:
    """`shows` are parts of what git prints; nothing but what `reaches` says goes upstream."""

    name: str
    script: str
    shows: tuple[str, ...]
    code: int = 1
    place: str = "strict"
    reaches: tuple[str, ...] = ("info/refs?service=git-receive-pack",)


def _push(name: str, refspecs: str, *shows: str) -> Refused:
    return Refused(name, f"{_NEW} git -C c push origin {refspecs}", shows)


PUSHES = [
    _push("branch", "HEAD:main", _NOT_REF, _SCOPE, "! [remote rejected] HEAD -> main (pushing"),
    _push("tag", "HEAD:refs/tags/v9", _NOT_REF, "! [remote rejected] HEAD -> v9"),
    _push("pull-request", "HEAD:refs/pull/1/head", _NOT_REF, "HEAD -> refs/pull/1/head"),
    _push("gerrit", "HEAD:refs/for/main", _NOT_REF, "HEAD -> refs/for/main"),
    _push("hidden", "HEAD:refs/keep/old2", _NOT_REF, "HEAD -> refs/keep/old2"),
    _push("notes", "HEAD:refs/notes/x", _NOT_REF),
    _push("replace", "HEAD:refs/replace/x", _NOT_REF),
    _push("case", "HEAD:refs/heads/AGENT/x", _NOT_REF),
    _push("symbolic", "HEAD:HEAD", _NOT_REF, "! [remote rejected] HEAD -> HEAD (pushing"),
    _push("one-level", "HEAD:refs/x", "(G203)", "! [remote rejected] HEAD -> refs/x (push names"),
    _push(
        "latin-1",
        "\"HEAD:refs/heads/agent/$(printf 'a\\344')\"",
        "(G203)",
        "is not UTF-8, or is over 1024 bytes (G203))",
    ),
    _push(
        "long-name",
        "HEAD:refs/heads/agent/$(head -c 1100 /dev/zero | tr '\\0' a)",
        "aaaa (push names something that is not a ref, is not UTF-8, or is over 1024 bytes (G203))",
    ),
    _push("delete", ":topic", "(G202)", "! [remote rejected] topic (deleting this ref"),
    _push(
        "one-of-several",
        "HEAD:agent/y HEAD:main",
        _NOT_REF,
        "! [remote rejected] HEAD -> main (pushing",
        "! [remote rejected] HEAD -> agent/y (refused with the rest)",
    ),
    _push("atomic", "--atomic HEAD:agent/y HEAD:main", _NOT_REF, "agent/y (refused with"),
    Refused("large", f"{_NEW} {_BIG} git -C c push origin HEAD:main", (_NOT_REF, _SCOPE)),
    Refused(
        "large-small-buffer",
        f"{_NEW} {_BIG} git -C c -c http.postBuffer=65536 push origin HEAD:main",
        (_NOT_REF, "! [remote rejected] HEAD -> main"),
    ),
    Refused("quiet", f"{_NEW} git -C c push -q origin HEAD:main", ("! [remote rejected]",)),
    Refused(
        "options",
        f"{_NEW} git -C c push -o ci.skip origin agent/x",
        (
            "remote: gitmoat: push options are not allowed (G204)",
            "! [remote rejected] agent/x -> agent/x (push options are not allowed (G204))",
        ),
    ),
    Refused(
        "strange-options",
        f"{_NEW} git -C c push -o \"$(printf 'a\\033b')\" origin agent/x",
        ("(G203)", "(push options are too many or not plain text (G203))"),
        place="optional",
    ),
    Refused(
        "signed",
        f"{_NEW} {_GPG} git -C c push --signed origin agent/x",
        (
            "remote: gitmoat: signed pushes are not supported (G205)",
            "! [remote rejected] agent/x -> agent/x (signed pushes are not served (G205))",
        ),
    ),
    Refused(
        "signed-if-asked",
        f"{_NEW} {_GPG} git -C c push --signed=if-asked origin agent/x",
        ("signed pushes are not served (G205)",),
    ),
    Refused(
        "too-many-refs",
        f"""{_NEW} for each in $(seq 4001); do echo "create refs/heads/agent/$each HEAD"; done \\
          | git -C c update-ref --stdin && git -C c push origin 'refs/heads/agent/*'""",
        (
            "remote: gitmoat: the push changes too many refs (G304)",
            "! [remote rejected] agent/4001 -> agent/4001 (push changes too many refs (G304))",
        ),
    ),
]

OTHERS = [
    Refused("clone", "git clone $URL c", (_NOT_HERE, _SCOPE), 128, "hidden", ()),
    Refused("ls-remote", "git ls-remote $URL", (_NOT_HERE,), 128, "hidden", ()),
    Refused(
        "push", "git init -q c && commit c x && git -C c push $URL HEAD:refs/heads/agent/x",
        (_NOT_HERE,), 128, "hidden", (),
    ),
    Refused("clone-unknown", "git clone $BASE/nothing.git c", (_NOT_HERE,), 128, "hidden", ()),
    Refused(
        "fetch-of-a-drop-box", "git ls-remote $URL",
        ("remote: gitmoat: fetching from this repository is not allowed (G105)",), 128, "drop", (),
    ),
    Refused(
        "archive", "git archive --remote=$URL main",
        ("operation not supported by protocol",), 128, "strict", (),
    ),
    Refused(
        "dumb", "GIT_SMART_HTTP=0 git ls-remote $URL",
        ("remote: gitmoat: not a git smart HTTP request (G103)",), 128, "strict", (),
    ),
    Refused(
        "submodule",
        "git clone -q --recurse-submodules $URL c",
        (_NOT_HERE, _SCOPE, "Failed to clone 'sub'"),
        1,
        "strict",
        ("info/refs?service=git-upload-pack", "git-upload-pack", "git-upload-pack"),
    ),
]  # fmt: skip

REFUSED = [*PUSHES, *OTHERS]
