"""A seedable random storm over many sandboxes, and what must be true after each of its steps.

The storm keeps a model: which sandboxes there are and in what state, whose sessions were revoked,
which refs the git server must have. The same seed gives the same steps on the same machine's luck.
"""

from __future__ import annotations

import random
import signal
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress

from attrs import define, field, frozen

from hostctl.failure import Failure
from tests.faults.sentinel import SENTINEL, Sentinel
from tests.faults.world import Machine, ended, kill_and_wait, new_name
from tests.soak.watch import Watch
from tests.stage.boxes import Box
from tests.stage.command import Ran, outcome
from tests.stage.internet import Surroundings
from tests.stage.repositories import ALLOWED, git
from tests.waiting import PATIENCE, eventually

# Generous where a storm is not what the limits are for.
POLICY = f"""\
version = 1
name = "soak"
[session]
ttl = "12h"
idle = "12h"
[limits]
git_requests_per_minute = 100000
[[git]]
id = "app"
repos = ["demo:{ALLOWED}"]
fetch = true
push = {{ branches = ["agent/**"], create = true, update = true }}
who = ["helper", "untrusted"]
[[egress]]
hosts = ["web.example"]
scheme = "http"
"""
# A plain request through the proxy that the environment names.
_REACH = "import sys, urllib.request as u; print(u.urlopen(sys.argv[1]).read().decode())"
_STATE = {True: "running", False: "stopped"}
_SENTINELS = 2
_QUICK = ["network", "egress", "dns", "metadata", "ports", "squatting", "credential"]
_COMMIT = (
    "test -d app || git clone -q $1 app; cd app && git fetch -q"
    " && git checkout -q -B work origin/main"
    ' && echo $2 > file && git add file && git commit -q -m "Work $2" && git rev-parse HEAD'
)


@define(eq=False)
class Member:
    """One sandbox as it must be."""

    box: Box
    running: bool = True
    revoked: bool = False
    sentinel: Sentinel | None = None

    @property
    def name(self) -> str:
        return self.box.name


@frozen
class Action:
    """`needs` picks the sandboxes it can be done to; None when it needs none."""

    weight: int
    run: Callable[..., None]
    needs: Callable[[Member], bool] | None = None


@define(eq=False)
class Storm:
    world: Machine
    around: Surroundings
    chance: random.Random
    most: int
    watch: Watch
    members: dict[str, Member] = field(factory=dict)
    refs: dict[str, str] = field(factory=dict)
    done: Counter[str] = field(factory=Counter)
    slowest: tuple[float, str] = (0.0, "")

    @classmethod
    def over(cls, world: Machine, around: Surroundings, seed: int, most: int) -> Storm:
        policies = world.stage.paths.policies
        (policies / "soak.toml").write_text(POLICY)
        storm = cls(world, around, random.Random(seed), most, Watch(world.stage))
        storm.refs = storm.upstream_refs()
        return storm

    # Steps

    def actions(self) -> dict[str, Action]:
        def running(member: Member) -> bool:
            return member.running

        def served(member: Member) -> bool:
            return member.running and not member.revoked

        return {
            "create": Action(min(30, 3 * (self.most - len(self.members))), self.create),
            "fetch": Action(6, self.fetch, served),
            "push": Action(6, self.push, served),
            "denied push": Action(3, self.denied_push, served),
            "reach": Action(4, self.reach, served),
            "denied reach": Action(2, self.denied_reach, served),
            "cut push": Action(2, self.cut_push, served),
            "kill sidecar": Action(3, self.kill_sidecar, running),
            "kill launcher": Action(1, lambda: self.kill_forker("launcher")),
            "kill zygote": Action(1, lambda: self.kill_forker("zygote")),
            "kill hostd": Action(1, self.kill_hostd),
            "kill broker": Action(1, self.kill_broker),
            "revoke": Action(1, self.revoke, served),
            "stop": Action(1, self.stop, running),
            "start": Action(2, self.start, lambda member: not member.running),
            "destroy": Action(2, self.destroy, lambda member: True),
            "verify": Action(1, self.verify_all_of, served),
        }

    def step(self) -> str:
        """One action, and everything that must hold afterwards."""
        possible: list[tuple[str, Action, list[Member]]] = []
        for name, action in self.actions().items():
            fit = [member for member in self.members.values() if self._fits(action, member)]
            if action.weight and (action.needs is None or fit):
                possible.append((name, action, fit))
        weights = [action.weight for _, action, _ in possible]
        name, action, fit = self.chance.choices(possible, weights)[0]
        begun = time.monotonic()
        action.run(*([self.chance.choice(fit)] if action.needs is not None else []))
        self.slowest = max(self.slowest, (time.monotonic() - begun, name))
        self.done[name] += 1
        self.check()
        return name

    def _fits(self, action: Action, member: Member) -> bool:
        return action.needs is not None and action.needs(member)

    def hostctl(self, *words: str) -> Ran:
        """Ends within the bound, whatever happens to it, and shows no secret."""
        ran = self.world.stage.hostctl(*words, timeout=PATIENCE)
        self.watch.look(ran.text, words[0])
        return ran

    def create(self) -> None:
        name = new_name()
        guarded = sum(m.sentinel is not None for m in self.members.values()) < _SENTINELS
        command = SENTINEL if guarded else ("sleep", "infinity")
        words = ("run", "-d", "--name", name, "--policy", "soak", "--", *command)
        self.hostctl(*words).expect_success("run")
        member = Member(Box(self.world.stage, name))
        if guarded:
            identifier = str(self.world.inspect(name)["sandbox"])
            member.sentinel = Sentinel(self.world.state(identifier) / "home" / "sentinel.json")
        self.members[name] = member

    def fetch(self, member: Member) -> None:
        """A broker that was just killed is found again within the bound."""
        url = self.world.stage.url(ALLOWED)
        self._until_served(member, "exec", member.name, "--", "git", "ls-remote", "-q", url)

    def _until_served(self, member: Member, *words: str) -> Ran:
        deadline = time.monotonic() + PATIENCE
        while (ran := self.hostctl(*words)).code != 0:
            assert time.monotonic() < deadline, f"{member.name}: {ran.text[-300:]}"
            time.sleep(0.3)
        return ran

    def _commit(self, member: Member) -> str:
        url, number = self.world.stage.url(ALLOWED), str(self.chance.getrandbits(60))
        script = ("/bin/sh", "-ec", f"cd /home/sandbox; {_COMMIT}", "soak", url, number)
        ran = self._until_served(member, "exec", member.name, "--", *script)
        return ran.out.strip().splitlines()[-1]

    def push(self, member: Member) -> None:
        commit, ref = self._commit(member), self._ref()
        self._until_served(member, *self._push_words(member, ref))
        self.refs[ref] = commit
        self.watch.need_push(ref, commit)

    def _ref(self) -> str:
        return f"refs/heads/agent/{self.chance.getrandbits(40):x}"

    def _push_words(self, member: Member, ref: str) -> tuple[str, ...]:
        inside = ("git", "-C", "/home/sandbox/app", "push", "-q", "origin", f"HEAD:{ref}")
        return ("exec", member.name, "--", *inside)

    def denied_push(self, member: Member) -> None:
        self._commit(member)
        ran = self.hostctl(*self._push_words(member, "refs/heads/main"))
        assert ran.code != 0, "a push to main went through"

    def _reach_words(self, member: Member, url: str) -> tuple[str, ...]:
        return ("exec", member.name, "--", "/usr/bin/python3", "-I", "-c", _REACH, url)

    def reach(self, member: Member) -> None:
        words = self._reach_words(member, "http://web.example/hello")
        assert self._until_served(member, *words).out.startswith("hello from outside")

    def denied_reach(self, member: Member) -> None:
        ran = self.hostctl(*self._reach_words(member, "http://evil.example/hello"))
        assert ran.code != 0, "a host that is not allowed was reached"

    def cut_push(self, member: Member) -> None:
        """The sidecar is killed somewhere in it: all or nothing, and never without a record."""
        commit, ref = self._commit(member), self._ref()
        inside = self._push_words(member, ref)[3:]
        process = member.box.begin(*inside)
        time.sleep(self.chance.uniform(0.0, 0.4))
        self._kill_sidecar_of(member)
        ran = outcome(process, PATIENCE)
        self.watch.look(ran.text, "a cut push")
        found = self.upstream_refs().get(ref)
        assert found in (None, commit), found
        if found == commit:
            self.refs[ref] = commit
            self.watch.need_push(ref, commit)
        else:
            assert ran.code != 0, "git was told that a push worked which did not"

    def kill_sidecar(self, member: Member) -> None:
        self._kill_sidecar_of(member)

    def _kill_sidecar_of(self, member: Member) -> None:
        pid = self.world.inspect(member.name)["sidecar"]["pid"]
        if pid is not None:
            kill_and_wait(int(pid))

    def kill_forker(self, name: str) -> None:
        old = self.world.kill(name)
        eventually(lambda: self.world.pid(name) != old and ended(old), f"another {name}", PATIENCE)

    def kill_hostd(self) -> None:
        self.world.kill("hostd")
        self.world.up()

    def kill_broker(self) -> None:
        self.world.kill("broker", self.chance.choice((signal.SIGKILL, signal.SIGTERM)))
        self.world.up()

    def revoke(self, member: Member) -> None:
        """Its git is refused from the next request on."""
        ended_before = self.world.inspect(member.name)["session"]["id"]
        if ended_before is None:
            return  # its sidecar is just being replaced
        with suppress(Failure):
            self.hostctl("session", "revoke", member.name).expect_success("revoke")
        member.revoked = True
        url = self.world.stage.url(ALLOWED)
        ran = self.hostctl("exec", member.name, "--", "git", "ls-remote", "-q", url)
        assert ran.code != 0, "a revoked session was served"

    def stop(self, member: Member) -> None:
        self.hostctl("stop", member.name).expect_success("stop")
        member.running, member.sentinel = False, None

    def start(self, member: Member) -> None:
        self.hostctl("start", member.name).expect_success("start")
        member.running = True

    def destroy(self, member: Member) -> None:
        if member.sentinel is not None:
            member.sentinel.assert_held()
        self.hostctl("rm", "--force", member.name).expect_success("rm")
        del self.members[member.name]

    def verify_all_of(self, member: Member) -> None:
        self._verify(member, None)

    # What must hold

    def check(self) -> None:
        eventually(self._as_modelled, "the sandboxes of the model", PATIENCE)
        assert self.upstream_refs() == self.refs, "the git server's refs are not the model's"
        self.watch.check()
        named = {str(each.get("name") or each.get("host")) for each in self.around.heard()}
        assert named <= {"web.example", "None"}, f"the internet has heard of {named}"
        running = [member for member in self.members.values() if member.running]
        if running:
            self._verify(self.chance.choice(running), _QUICK)

    def _as_modelled(self) -> bool:
        items = self.world.items()
        states = {member.name: _STATE[member.running] for member in self.members.values()}
        if {name: item["state"] for name, item in items.items()} != states:
            return False
        served = {m.name for m in self.members.values() if m.running and not m.revoked}
        names = sorted(self.world.sessions().values())
        groups = {
            f"{item['sandbox']}-{room}"
            for item in items.values()
            if item["state"] == "running"
            for room in ("sandbox", "gate", "sidecar")
        }
        return names == sorted(served) and self.watch.cgroups() == groups

    def _verify(self, member: Member, groups: list[str] | None) -> None:
        """A sidecar that is just being replaced is waited for; a wall is not."""
        if member.revoked and groups is None:
            return
        eventually(lambda: self.world.inspect(member.name)["sidecar"]["pid"], "a sidecar", PATIENCE)
        report = self.world.ask("verify", sandbox=member.name, groups=groups)["report"]
        wrong = [row for row in report["probes"] if not row["ok"]]
        assert not wrong, f"{member.name}: {wrong[:3]}"
        self.done["controls measured"] += report["total"]

    def upstream_refs(self) -> dict[str, str]:
        bare = self.world.stage.upstream.repositories / f"{ALLOWED}.git"
        listed = git("--git-dir", str(bare), "for-each-ref", "--format=%(refname) %(objectname)")
        pairs = (line.split(" ") for line in listed.splitlines())
        return {words[0]: words[1] for words in pairs}

    def end(self) -> None:
        """Everything removed; what is compared afterwards is the whole machine."""
        for member in list(self.members.values()):
            self.destroy(member)
        self.check()
        self.watch.check()
        self.hostctl("audit", "verify").expect_success("audit verify")
        (self.world.stage.paths.policies / "soak.toml").unlink()
