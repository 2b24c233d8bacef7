"""`hostctl doctor`: what is missing or unsafe on this host, each with its fix."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from collections.abc import Iterator
from typing import NamedTuple

from gitmoat.paths import Paths
from gitmoat.version import VERSION
from hostctl.doctor import git_servers, installation
from hostctl.doctor import machine as host
from hostctl.doctor.enrolments import enrolments
from hostctl.doctor.findings import NOTE, OK, PROBLEM, Check, Finding
from hostctl.failure import NOT_ENFORCED, plain
from hostctl.output import Output, need_root
from hostctl.setup.defaults import need_directory
from hostctl.terminal.waiting_line import Waiting

ABOUT = """\
Examines everything that this host must have: kernel, settings, programs, rules, cgroups, Docker,
file modes, clock, uids, daemons, leftovers, free space, git servers. Each problem comes with the
command that fixes it; exit 6 if there is one. Notes (!) do not change the exit code.

--fix makes the repairs that cannot do harm, and says which: it narrows modes, and removes control
sockets on which no daemon answers and the marker files of a verification that was killed."""


def arguments(parser: ArgumentParser) -> None:
    parser.add_argument("--fix", action="store_true", help="make the repairs that cannot do harm")


def main(args: Namespace, paths: Paths, out: Output) -> int:
    need_root("`hostctl doctor`")
    need_directory(paths)
    with Waiting("looking at this host"):
        results = [(finding, _repair(finding, args.fix)) for finding in examine(paths)]
    if not out.json:
        for finding, repaired in results:
            _show(finding, repaired, out)
    return _conclude(results, out)


def examine(paths: Paths) -> Iterator[Finding]:
    for check in _checks(paths):
        yield from check()


def _checks(paths: Paths) -> list[Check]:
    return [
        *(host.kernel, host.settings, host.programs, host.rules, host.cgroups, host.clock),
        lambda: host.docker(installation.docker_socket(paths)),
        lambda: installation.modes(paths),
        lambda: installation.policies(paths),
        lambda: installation.uids(paths),
        lambda: installation.disk_space(paths),
        lambda: installation.daemons(paths, VERSION),
        lambda: installation.leftovers(paths),
        lambda: enrolments(paths),
        lambda: git_servers.upstreams(paths),
        lambda: git_servers.credentials(paths),
    ]


class Repair(NamedTuple):
    """Whether a finding's repair was tried, and why it failed if it did."""

    tried: bool = False
    why: str = ""

    @property
    def done(self) -> bool:
        return self.tried and not self.why


def _repair(finding: Finding, wanted: bool) -> Repair:
    if not wanted or finding.repair is None:
        return Repair()
    try:
        finding.repair()
    except OSError as error:
        return Repair(tried=True, why=error.strerror or str(error))
    return Repair(tried=True)


def _show(finding: Finding, repaired: Repair, out: Output) -> None:
    good, bad = ("✓", "✗") if out.can_show("✓✗") else ("[ok]  ", "[FAIL]")
    if finding.level == OK:
        if not out.quiet:
            out.line(f"{out.good(good)} {finding.check:<13} {plain(finding.what)}")
        return
    mark = "!" if finding.level == NOTE else out.bad(bad)
    out.line(f"{mark} {finding.check:<13} {plain(finding.what)}")
    if repaired.done:
        out.line(f"  {'':<13} fixed: {plain(finding.fix)}")
    else:
        failed = f" (--fix failed: {plain(repaired.why)})" if repaired.why else ""
        out.line(f"  {'':<13} fix: {plain(finding.fix)}{failed}")


def _conclude(results: list[tuple[Finding, Repair]], out: Output) -> int:
    left = [each for each, repaired in results if each.level == PROBLEM and not repaired.done]
    notes = sum(each.level == NOTE and not repaired.done for each, repaired in results)
    fixed = sum(repaired.done for _, repaired in results)
    safe = sum(each.repair is not None for each, repaired in results if not repaired.tried)
    if out.json:
        findings = [each.fields(repaired.done) for each, repaired in results]
        counts = {"problems": len(left), "notes": notes, "fixed": fixed}
        out.emit({"schema": "gitmoat.doctor/1", "findings": findings, **counts})
    else:
        _summarise(len(left), notes, fixed, out)
        if safe and not fixed:
            out.progress(f"hint: hostctl doctor --fix repairs {safe} of these")
    return NOT_ENFORCED if left else 0


def _summarise(problems: int, notes: int, fixed: int, out: Output) -> None:
    parts = [f"{problems} problem{'' if problems == 1 else 's'}"]
    parts += [f"{notes} note{'' if notes == 1 else 's'}"] if notes else []
    parts += [f"{fixed} fixed"] if fixed else []
    text = ", ".join(parts)
    if problems:
        out.line(out.bad(text))
    else:
        out.result(out.good(text), {})
