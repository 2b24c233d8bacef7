"""Rows 64 and 65: submodules, and objects that are not what the refs say.

Nothing recurses, nothing is fetched because an object is missing, and what is pushed is exactly
the object that the name meant, whole and well formed, or nothing.
"""

from __future__ import annotations

import uuid

import pytest

from tests.adversary.hostile import Hostile
from tests.fakes.long_cases import one_in
from tests.stage.gitmoat import Gitmoat
from tests.stage.repositories import ALLOWED, bare, git

# A submodule that every command which recurses would go for.
SUBMODULE = """
git config --global protocol.file.allow always
git clone -q --bare . /workspace/evil/module.git
git submodule --quiet add /workspace/evil/module.git sub
git commit -q -m "With a submodule"
for key in submodule.recurse fetch.recurseSubmodules submodule.sub.active; do
    git config "$key" true
done
git config push.recurseSubmodules on-demand
git config -f .git/modules/sub/config core.fsmonitor "$CANARY"
printf '#!/bin/sh\\n%s\\n' "$CANARY" > .git/modules/sub/hooks/pre-push
cp .git/modules/sub/hooks/pre-push .git/modules/sub/hooks/reference-transaction
chmod 755 .git/modules/sub/hooks/*
cd sub && git checkout -q -b ci/sub && git commit -q --allow-empty -m x && cd ..
git commit -q -am "A submodule to push on demand"
"""


def test_submodules_are_never_recursed_into(hostile: Hostile) -> None:
    hostile.plant(SUBMODULE)
    try:
        hostile.control("git status")
        assert hostile.executions() == {hostile.untrusted}, "the exploit does not work at all"
        hostile.forget()
        for each in hostile.attack():
            assert each.ran.code == 0
    finally:
        hostile.sh('rm -f "$HOME/.gitconfig"')


def test_a_command_that_a_submodule_names_is_not_run(hostile: Hostile) -> None:
    hostile.plant(
        SUBMODULE + 'git config submodule.sub.update "!$CANARY"; git update-index --cacheinfo '
        "160000,$(git rev-parse HEAD),sub; git commit -q -m Moved"
    )
    try:
        hostile.control("git submodule update --init --force || true")
        assert hostile.untrusted in hostile.executions(), "the exploit does not work at all"
        hostile.forget()
        hostile.attack()
    finally:
        hostile.sh('rm -f "$HOME/.gitconfig"')


# kind, value, and whether git's fsck knows it for an attack.
MODULES = {
    "a URL that is an option": ("u", "-u=./payload", True),
    "a URL that is a helper": ("u", "ext::sh -c touch% /tmp/x", False),
    "a path that is an option": ("p", "--upload-pack=x", True),
    "a path that climbs": ("p", "../../.git/hooks", False),
    "a name that climbs": ("n", "../../x", True),
}
GITMODULES = """
make() { printf '[submodule "%s"]\\n\\tpath = %s\\n\\turl = %s\\n' "$1" "$2" "$3"; }
case "$KIND" in
    u) make s s "$VALUE" ;;
    p) make s "$VALUE" https://h/x ;;
    n) make "$VALUE" s https://h/x ;;
esac > modules
blob=$(git hash-object -w modules)
tree=$(printf '100644 blob %s\\t.gitmodules\\n' "$blob" | git mktree)
git update-ref HEAD "$(git commit-tree -p HEAD -m Modules "$tree")"
"""


@pytest.mark.parametrize("case", one_in(2, sorted(MODULES)))
def test_a_malicious_gitmodules_is_refused_or_does_nothing(hostile: Hostile, case: str) -> None:
    kind, value, known = MODULES[case]
    hostile.plant(f"KIND={kind} VALUE='{value}'\n{GITMODULES}")
    pushed = hostile.push()
    hostile.check(pushed)
    if known:
        assert pushed.ran.code == 1 and "[G203]" in pushed.ran.err, pushed.ran.text
        assert hostile.requests() == set()


RAW = """
import hashlib, os, subprocess, sys, zlib
def put(kind, data):
    raw = kind.encode() + b" %d\\0" % len(data) + data
    name = hashlib.sha1(raw).hexdigest()
    path = ".git/objects/" + name[:2]
    os.makedirs(path, exist_ok=True)
    if not os.path.exists(path + "/" + name[2:]):
        with open(path + "/" + name[2:], "wb") as file:
            file.write(zlib.compress(raw))
    return name
def tree(*entries):
    return put("tree", b"".join(
        mode.encode() + b" " + name + b"\\0" + bytes.fromhex(oid) for mode, name, oid in entries))
def commit(top, parents=None, message=b"x", author=b"A <a@x.invalid> 1700000000 +0000"):
    if parents is None:
        parents = [subprocess.check_output(["git", "rev-parse", "HEAD"], text=True).strip()]
    lines = [b"tree " + top.encode()] + [b"parent " + p.encode() for p in parents]
    lines += [b"author " + author, b"committer " + author, b"", message]
    return put("commit", b"\\n".join(lines))
def point(oid):
    with open(".git/refs/heads/ci/work", "w") as file:
        file.write(oid + "\\n")
blob = put("blob", b"content\\n")
"""


def raw(body: str) -> str:
    return f"cat > ../evil/raw.py <<'E'\n{RAW}{body}\nE\npython3 ../evil/raw.py\n"


# name → what Python puts into the repository; none may reach the upstream.
ILL_FORMED = {
    "a tree entry .git": 'point(commit(tree(("100644", b".git", blob))))',
    "a tree entry .GIT": 'point(commit(tree(("40000", b".GIT", tree(("100644", b"a", blob))))))',
    "a tree entry git~1": 'point(commit(tree(("100644", b"git~1", blob))))',
    "a tree entry with a zero-width joiner": (
        'point(commit(tree(("100644", b".gi\\xe2\\x80\\x8ct", blob))))'
    ),
    "a tree entry ..": 'point(commit(tree(("40000", b"..", tree(("100644", b"a", blob))))))',
    "a tree entry .": 'point(commit(tree(("40000", b".", tree(("100644", b"a", blob))))))',
    "a tree entry with a slash": 'point(commit(tree(("100644", b"a/b", blob))))',
    "a tree entry without a name": 'point(commit(tree(("100644", b"", blob))))',
    "two entries of one name": 'point(commit(tree(*2 * [("100644", b"a", blob)])))',
    "entries out of order": 'point(commit(tree(("100644", b"b", blob), ("100644", b"a", blob))))',
    "a symlink .gitmodules": 'point(commit(tree(("120000", b".gitmodules", blob))))',
    "a missing blob": 'point(commit(tree(("100644", b"a", "12" * 20))))',
    "a missing tree": 'point(commit("12" * 20))',
    "a missing parent": 'point(commit(tree(("100644", b"a", blob)), ["12" * 20]))',
    "a blob where a tree should be": 'point(commit(tree(("40000", b"a", blob))))',
    "a commit in a tree's place": 'point(commit(commit(tree(("100644", b"a", blob)))))',
    "a commit without an author": (
        'point(put("commit", b"tree " + tree(("100644", b"a", blob)).encode() + b"\\n\\nx"))'
    ),
    "an author with a newline and a NUL": (
        'point(commit(tree(("100644", b"a", blob)), author=b"A\\0 <a> 1 +0000"))'
    ),
    "an object under another's name": (
        "other = put('blob', b'other')\n"
        "os.replace('.git/objects/%s/%s' % (other[:2], other[2:]),\n"
        "    '.git/objects/%s/%s' % (blob[:2], blob[2:]))\n"
        'point(commit(tree(("100644", b"a", blob))))'
    ),
    "a truncated object": (
        "path = '.git/objects/%s/%s' % (blob[:2], blob[2:])\n"
        "os.truncate(path, 9)\n"
        'point(commit(tree(("100644", b"a", blob))))'
    ),
}


@pytest.mark.parametrize("case", one_in(3, sorted(ILL_FORMED)))
def test_an_ill_formed_object_is_not_pushed(hostile: Hostile, stage: Gitmoat, case: str) -> None:
    before = refs_of(stage)
    hostile.plant(raw(ILL_FORMED[case]))
    pushed = hostile.push()
    hostile.check(pushed)
    assert pushed.ran.code in (1, 4), pushed.ran.text
    assert refs_of(stage) == before
    assert hostile.requests() == set(), "refused before the upstream heard of it"


def refs_of(stage: Gitmoat) -> str:
    return git("--git-dir", str(bare(stage, ALLOWED)), "for-each-ref")


# name → a plant after which HEAD means one thing to git's porcelain and another to the pusher.
PRETENDED = {
    "replace refs": 'git replace HEAD "$(git commit-tree -m Other HEAD^{tree})"',
    "grafts": "git rev-parse HEAD > .git/info/grafts; git config advice.graftFileDeprecated false",
    "shallow": "git rev-parse HEAD > .git/shallow",
    "a promisor that never answers": (
        "git config core.repositoryFormatVersion 1; git config extensions.partialClone origin\n"
        "git config remote.origin.promisor true; git config protocol.ext.allow always\n"
        'git config remote.origin.url "ext::$CANARY_FILE"\n'
        "tree=$(git rev-parse HEAD^{tree}); rm -f .git/objects/$(echo $tree | cut -c1-2)/$(echo "
        "$tree | cut -c3-)"
    ),
    "alternates of the gate": (
        "printf '/gate/%s/objects\\n/gate/incoming\\n' x > .git/objects/info/alternates"
    ),
    "a loop of alternates": "echo ../objects > .git/objects/info/alternates",
    "commit graphs of a lie": (
        "git commit-graph write --reachable; chmod u+w .git/objects/info/commit-graph\n"
        "dd if=/dev/urandom of=.git/objects/info/commit-graph bs=1 seek=100 count=400 conv=notrunc"
        " 2>/dev/null"
    ),
    "a midx and bitmaps of a lie": (
        "git repack -adbq --write-midx; chmod -R u+w .git/objects/pack\n"
        "for f in .git/objects/pack/*midx* .git/objects/pack/*.bitmap .git/objects/pack/*.rev; do\n"
        "  test -f $f && dd if=/dev/urandom of=$f bs=1 seek=60 count=300 conv=notrunc 2>/dev/null\n"
        "done; true"
    ),
}


@pytest.mark.parametrize("case", one_in(2, sorted(PRETENDED)))
def test_what_is_pushed_is_what_the_name_means_and_all_of_it(
    hostile: Hostile, stage: Gitmoat, case: str
) -> None:
    hostile.plant(f"git rev-parse HEAD > ../evil/head\n{PRETENDED[case]}")
    head = hostile.sh("cat /workspace/evil/head").out.strip()
    branch = f"ci/{uuid.uuid4().hex[:10]}"
    pushed = hostile.git("push", "app", f"HEAD:{branch}")
    hostile.check(pushed)
    arrived = stage.upstream_ref(f"refs/heads/{branch}")
    assert arrived == (head if pushed.ran.code == 0 else None), pushed.ran.text
    path = str(bare(stage, ALLOWED))
    assert "missing" not in git("--git-dir", path, "fsck", "--connectivity-only", "--no-dangling")
    hostile.check(hostile.fetch())
