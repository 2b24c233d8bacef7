"""The operations of git that must not notice us, as scripts.

`$URL` is the repository, `$BASE` the place where its neighbours are. A script runs in an empty
directory; whatever repositories it leaves there are compared too.
"""

from __future__ import annotations

from attrs import frozen


@frozen
class Operation:
    name: str
    script: str
    template: str = "plain"
    helper: bool = False  # run by the helper uid on port 418 too
    code: int = 0
    says: tuple[str, ...] = ()  # words it prints that show it did what its name says


def _by_version(name: str, script: str) -> list[Operation]:
    setting = "export GIT_CONFIG_COUNT=1 GIT_CONFIG_KEY_0=protocol.version GIT_CONFIG_VALUE_0="
    return [
        Operation(f"{name}-v{version}", f"{setting}{version}\n{script}", helper=version != 1)
        for version in (0, 1, 2)
    ]


_NEW = "git clone -q $URL c && git -C c checkout -q -b agent/x && commit c new &&"

VERSIONS = [
    *_by_version("clone", "git clone $URL c"),
    *_by_version(
        "fetch",
        """git clone -q --single-branch -b topic $URL c && commit c mine
        git -C c fetch origin '+refs/heads/*:refs/remotes/origin/*' && git -C c fetch origin""",
    ),
    *_by_version("ls-remote", "git ls-remote $URL; git ls-remote --symref $URL HEAD"),
    *_by_version("push", f"{_NEW} git -C c push origin agent/x"),
    *_by_version(
        "shallow",
        """git clone --depth 1 $URL c && git -C c fetch --deepen 1
        git -C c fetch --depth 4 && git -C c fetch --unshallow && git -C c log --oneline""",
    ),
]

FETCHES = [
    Operation("shallow-since", "git clone --shallow-since=1700000004 $URL c", helper=True),
    Operation("shallow-exclude", "git clone --shallow-exclude=v1 --no-local $URL c"),
    Operation(
        "blob-none",
        """git clone --filter=blob:none --no-checkout $URL c
        git -C c rev-list --objects --missing=print --all | sort
        git -C c cat-file -p main:a.txt && git -C c checkout topic""",
        helper=True,
    ),
    Operation(
        "tree-0",
        """git clone --filter=tree:0 --no-checkout $URL c
        git -C c log --oneline -- dir && git -C c checkout -q main
        git -C c diff main~3 --stat""",
        helper=True,
    ),
    Operation("blob-limit", "git clone --filter=blob:limit=20 $URL c"),
    Operation("single-branch", "git clone --single-branch -b topic $URL c"),
    Operation("clone-tag", "git clone -q -b v1 $URL c 2>/dev/null"),
    Operation("no-tags", "git clone --no-tags $URL c && git -C c fetch --tags"),
    Operation(
        "one-tag",
        "git init -q c && git -C c fetch $URL refs/tags/v1:refs/tags/v1 && git -C c cat-file -p v1",
    ),
    Operation(
        "notes",
        """git clone -q $URL c && git -C c fetch origin 'refs/notes/*:refs/notes/*'
        git -C c notes show HEAD""",
    ),
    Operation("mirror", "git clone --mirror $URL m.git && git -C m.git remote update", helper=True),
    Operation("empty", "git clone $URL c", "empty", helper=True),
    Operation("sha256", "git clone $URL c && git -C c rev-parse main", "sha256-full", helper=True),
    Operation("sha256-empty", "git clone $URL c; git ls-remote $URL", "sha256"),
    Operation("ls-remote-patterns", "git ls-remote --heads --tags $URL 'v*' 'ma*'"),
    Operation("ls-remote-exit-code", "git ls-remote --exit-code $URL nothing", code=2),
    Operation("ls-remote-by-url-with-slash", "git ls-remote -q $URL/ main"),
    Operation(
        "by-object-id",
        "git init -q c && git -C c fetch --depth 1 $URL $(git ls-remote $URL topic | cut -f1)",
    ),
    Operation("prune", "git clone -q $URL c && git -C c fetch --prune --prune-tags origin"),
    Operation("pull-rebase", f"{_NEW} git -C c pull --rebase -q origin topic && git -C c log -3"),
    Operation("remote-show", "git clone -q $URL c && git -C c remote show origin"),
    Operation(
        "http2-asked",
        """git -c http.version=HTTP/2 clone -q $URL c && git -C c checkout -q -b agent/x
        commit c new && git -C c -c http.version=HTTP/2 push -q origin agent/x
        git -C c -c http.version=HTTP/2 ls-remote origin""",
        helper=True,
    ),
    Operation("missing-ref", "git init -q c && git -C c fetch $URL refs/heads/nothing", code=128),
    Operation(
        "gzip-request",
        """git clone -q --single-branch -b topic $URL c && cd c
        for each in $(seq 300); do echo "commit refs/heads/w$each"
          echo 'committer A <a@example.org> 1700000050 +0000'; echo "data <<E"; echo $each; echo E
          echo; done | git fast-import --quiet
        GIT_TRACE_CURL=$PWD/../trace git -c protocol.version=0 fetch -q origin main
        grep -qi 'content-encoding: gzip' ../trace && echo compressed""",
        helper=True,
        says=("compressed",),
    ),
    Operation(
        "gzip-request-v2",
        """git clone -q --single-branch -b topic $URL c && cd c
        for each in $(seq 300); do echo "commit refs/heads/w$each"
          echo 'committer A <a@example.org> 1700000050 +0000'; echo "data <<E"; echo $each; echo E
          echo; done | git fast-import --quiet
        GIT_TRACE_CURL=$PWD/../trace git -c protocol.version=2 fetch -q origin main
        grep -qi 'content-encoding: gzip' ../trace && echo compressed""",
        says=("compressed",),
    ),
    Operation(
        "chunked-request",
        """GIT_TRACE_CURL=$PWD/trace git -c protocol.version=0 -c http.postBuffer=65536 \\
          clone -q --mirror $URL c
        grep -qi 'transfer-encoding: chunked' trace && echo chunked; rm trace
        git -C c for-each-ref | wc -l""",
        "many",
        says=("chunked", "2001"),
    ),
    Operation(
        "relative-submodule",
        "git clone -q --recurse-submodules $URL c && git -C c submodule status",
        "modules-relative",
    ),
    Operation(
        "absolute-submodule",
        """git clone -q $URL c && git -C c submodule update --init
        git -C c submodule status && git -C c fetch --recurse-submodules""",
        "modules-absolute",
    ),
]

PUSHES = [
    Operation(
        "first-push",
        "git init -q -b main c && commit c one && git -C c push -u $URL main",
        "empty",
        helper=True,
    ),
    Operation(
        "sha256-push",
        """git init -q -b main --object-format=sha256 c && commit c one
        git -C c push $URL main && commit c two && git -C c push $URL main:agent/x""",
        "sha256",
        helper=True,
    ),
    Operation(
        "update",
        f"{_NEW} git -C c push -q origin HEAD:main && git -C c push origin HEAD~:main",
        code=1,
    ),
    Operation("up-to-date", "git clone -q $URL c && git -C c push origin main"),
    Operation("porcelain", f"{_NEW} git -C c push --porcelain origin agent/x main"),
    Operation("dry-run", f"{_NEW} git -C c push --dry-run origin agent/x"),
    Operation(
        "several-refs",
        f"""{_NEW} git -C c tag t1 && git -C c tag -a -m T t2
        git -C c push origin agent/x HEAD:refs/heads/agent/y t1 t2 HEAD:main""",
        helper=True,
    ),
    Operation(
        "atomic",
        f"{_NEW} git -C c push --atomic origin agent/x HEAD:main :topic",
        helper=True,
    ),
    Operation(
        "atomic-one-fails",
        f"{_NEW} git -C c push --atomic origin HEAD:agent/x HEAD~3:main",
        helper=True,
        code=1,
    ),
    Operation(
        "atomic-one-fails-upstream",
        f"{_NEW} git -C c push --atomic origin HEAD:agent/x HEAD:refs/heads/topic/below",
        code=1,
    ),
    Operation(
        "one-fails-upstream",
        f"{_NEW} git -C c push origin HEAD:agent/x HEAD:refs/heads/topic/below",
        code=1,
    ),
    Operation("delete", "git clone -q $URL c && git -C c push origin :topic", helper=True),
    Operation("delete-several", "git clone -q $URL c && git -C c push -d origin topic v1 light"),
    Operation("delete-missing", "git clone -q $URL c && git -C c push origin :nothing", code=1),
    Operation("tags", f"{_NEW} git -C c tag v2 && git -C c push --tags origin"),
    Operation(
        "thousands-of-tags",
        f"""{_NEW} for each in $(seq 3125); do echo "create refs/tags/r$each HEAD"; done \\
          | git -C c update-ref --stdin && git -C c push -q --tags origin""",
        helper=True,
    ),
    Operation(
        "follow-tags", f"{_NEW} git -C c tag -am T v2 && git -C c push --follow-tags origin agent/x"
    ),
    Operation("not-fast-forward", f"{_NEW} git -C c push origin HEAD~3:main", code=1),
    Operation("force", f"{_NEW} git -C c push -f origin HEAD~3:main"),
    Operation(
        "force-with-lease",
        f"{_NEW} git -C c push --force-with-lease=main:$(git -C c rev-parse main) origin HEAD:main",
        helper=True,
    ),
    Operation(
        "stale-lease",
        f"""{_NEW} old=$(git -C c rev-parse main~1)
        git -C c push --force-with-lease=main:$old origin HEAD:main""",
        helper=True,
        code=1,
    ),
    Operation(
        "notes-push",
        f"""{_NEW} git -C c fetch -q origin 'refs/notes/*:refs/notes/*'
        git -C c notes add -m more HEAD && git -C c push origin refs/notes/commits""",
    ),
    Operation(
        "mirror-push",
        "git clone -q --mirror $BASE/source.git m.git && git -C m.git push --mirror $URL",
        "empty",
        helper=True,
    ),
    Operation(
        "below-the-post-buffer",
        f"""{_NEW} big c/big 200000 && git -C c add big && git -C c commit -qm big
        GIT_TRACE_CURL=$PWD/trace git -C c push origin agent/x
        grep -qi 'content-length: 20' trace && echo counted; rm trace""",
        helper=True,
        says=("counted",),
    ),
    Operation(
        "above-the-post-buffer",
        f"""{_NEW} big c/big 3000000 && git -C c add big && git -C c commit -qm big
        GIT_TRACE_CURL=$PWD/trace git -C c push origin agent/x
        grep -qi 'transfer-encoding: chunked' trace && echo chunked
        grep -qi 'content-length: 4[^0-9]*$' trace && echo probed; rm trace""",
        helper=True,
        says=("chunked", "probed"),
    ),
    Operation(
        "small-post-buffer",
        f"""{_NEW} big c/big 300000 && git -C c add big && git -C c commit -qm big
        git -C c -c http.postBuffer=65536 push origin agent/x""",
    ),
    Operation(
        "shallow-push", "git clone -q --depth 1 $URL c && commit c n && git -C c push origin"
    ),
    Operation("quiet-push", f"{_NEW} git -C c push -q origin agent/x"),
    Operation("progress-push", f"{_NEW} git -C c push --progress origin agent/x 2>/dev/null"),
    Operation("unsigned-if-asked", f"{_NEW} git -C c push --no-signed origin agent/x"),
]

ALLOWED = [*VERSIONS, *FETCHES, *PUSHES]
