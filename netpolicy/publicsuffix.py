"""Domains that belong to everybody (`co.uk`-like) or to the many tenants of one service."""

from __future__ import annotations

from functools import cache

from publicsuffixlist import PublicSuffixList


@cache
def _list() -> PublicSuffixList:
    return PublicSuffixList()


def is_shared(domain: str) -> bool:
    """A top-level domain that the list does not know counts as everybody's."""
    return bool(_list().is_public(domain))
