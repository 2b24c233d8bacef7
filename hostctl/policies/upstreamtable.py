"""The upstreams as the broker's files name them: what a URL means, and who ignores case."""

from __future__ import annotations

from urllib.parse import urlsplit

from gitmoat.paths import Paths
from hostctl.failure import NOT_FOUND, Failure, usage
from hostctl.setup.brokerfiles import configured
from netpolicy.upstreams import Upstream, UpstreamTable, fold_host, without_userinfo


def known_upstreams(paths: Paths) -> UpstreamTable:
    """Empty if we may not read the broker's files: then UPSTREAM:PATH is understood, no URL."""
    try:
        tables = configured(paths, "upstream")
    except Failure as failure:
        if failure.code == "C102":
            return UpstreamTable(())
        raise
    found = [_upstream(name, values) for name, (_, values) in tables.items()]
    try:
        return UpstreamTable(tuple(found))
    except ValueError as error:
        raise _unclear(str(error)) from None


def _upstream(name: str, values: dict[str, object]) -> Upstream:
    also = values.get("also")
    hosts = [urlsplit(str(values.get("url", ""))).netloc, *(also if isinstance(also, list) else [])]
    try:
        return Upstream(name, tuple(map(str, hosts)), values.get("case_insensitive") is True)
    except ValueError as error:
        raise _unclear(f"upstream.{name}: {error}") from None


def repository_of(text: str, upstreams: UpstreamTable) -> tuple[str, str]:
    """Upstream and path of `upstream:path` or of a URL as people type it."""
    if "://" not in text and "@" not in text:
        upstream, colon, path = text.partition(":")
        if not colon:
            raise usage(f"{text!r} is not a repository", "write upstream:path, or a URL")
        return upstream, path
    folded = fold_host(text)
    for prefix, known in upstreams.spellings():
        if folded.startswith(prefix):
            return known.name, folded.removeprefix(prefix)
    what = f"no upstream is configured for {without_userinfo(text)}"
    raise Failure("U107", what, exit_code=NOT_FOUND)


def _unclear(why: str) -> Failure:
    return Failure("B104", "the upstreams in the broker's files are not valid", why)
