"""Clone, commit and push with other implementations of git; each script prints JSON.

argv: URL, directory, the ref to push to.
"""

GIT = r"""
git=$1 url=$2 directory=$3 ref=$4
export GIT_CONFIG_NOSYSTEM=1 GIT_TERMINAL_PROMPT=0 LC_ALL=C
"$git" clone -q "$url" "$directory" >&2 && cd "$directory" || exit 1
echo new > new.txt && "$git" add new.txt || exit 1
"$git" -c user.name=A -c user.email=a@example.org commit -q -m New || exit 1
"$git" push "$url" "HEAD:$ref" > ../said 2>&1 && ok=True || ok=False
/usr/bin/python3 -I - "$("$git" rev-parse HEAD)" $ok <<'END'
import json, os, sys
head, ok = sys.argv[1:]
error = None if ok == "True" else open("../said").read()
print(json.dumps({"head": head, "files": sorted(os.listdir()), "ok": not error, "error": error}))
END
"""

LIBGIT2 = """
import json, os, sys
import pygit2

url, directory, ref = sys.argv[1:]


class Told(pygit2.RemoteCallbacks):
    error = None

    def push_update_reference(self, refname, message):
        self.error = message


pygit2.option(pygit2.enums.Option.SET_SEARCH_PATH, pygit2.enums.ConfigLevel.SYSTEM, "")
pygit2.option(pygit2.enums.Option.SET_SEARCH_PATH, pygit2.enums.ConfigLevel.GLOBAL, "")
repository = pygit2.clone_repository(url, directory)
with open(os.path.join(directory, "new.txt"), "w") as file:
    file.write("new\\n")
repository.index.add("new.txt")
who = pygit2.Signature("A", "a@example.org", 1700000000, 0)
parents = [repository.head.target]
commit = repository.create_commit(
    "HEAD", who, who, "New", repository.index.write_tree(), parents
)
told = Told()
try:
    repository.remotes["origin"].push([f"refs/heads/main:{ref}"], callbacks=told)
except pygit2.GitError as error:
    told.error = str(error)
files = sorted(os.listdir(directory))
print(json.dumps({"head": str(commit), "files": files, "ok": not told.error, "error": told.error}))
"""

DULWICH = """
import io, json, os, sys
from dulwich import porcelain

url, directory, ref = sys.argv[1:]
repository = porcelain.clone(url, directory, errstream=io.BytesIO())
with open(os.path.join(directory, "new.txt"), "w") as file:
    file.write("new\\n")
porcelain.add(repository, [os.path.join(directory, "new.txt")])
who = b"A <a@example.org>"
commit = porcelain.commit(repository, message=b"New", author=who, committer=who)
error, said = None, io.BytesIO()
try:
    porcelain.push(repository, url, f"refs/heads/main:{ref}", errstream=said, outstream=said)
except Exception as problem:
    error = f"{type(problem).__name__}: {problem}"
rejected = b"failed" in said.getvalue() or b"rejected" in said.getvalue()
told = {"head": commit.decode(), "files": sorted(os.listdir(directory))}
told |= {"ok": not error and not rejected, "error": error or said.getvalue().decode()}
print(json.dumps(told))
"""
