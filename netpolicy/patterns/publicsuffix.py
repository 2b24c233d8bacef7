"""Public suffixes: domains below which anybody (`co.uk`), or any tenant of one service, can
register names. The list is that of publicsuffix.org."""

from __future__ import annotations

from functools import cache

from publicsuffixlist import PublicSuffixList


@cache
def _list() -> PublicSuffixList:
    return PublicSuffixList()


def is_shared(domain: str) -> bool:
    """A top-level domain that the list does not know counts as a public suffix."""
    return bool(_list().is_public(domain))
