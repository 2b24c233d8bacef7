"""The URL of an index that package managers in a sandbox are told to ask.

It goes into their configuration files and variables, so it is parsed whole: no character of it
means anything there (quotes, comments, `${VAR}` of npm, the list separators of go). It never has a
user or a password: a sandbox gets no credential.
"""

import re

from gitmoat.wire.hostname import Destination, parse_host
from gitmoat.wire.malformed import Malformed
from netpolicy.patterns.matchers import BadPattern, HostPattern
from netpolicy.policy import DEFAULT_PORTS, Scheme

_URL = re.compile(
    r"(https?)://([^/]*@)?([A-Za-z0-9._-]{1,253})(:[0-9]{1,5})?"
    r"((?:/(?:[A-Za-z0-9._~+-]|%[0-9A-Fa-f]{2})*)*)"
)
_LONGEST = 1000


def parse_index_url(text: str) -> str:
    """The URL with a lower-case host; BadPattern, which does not repeat it, for any other text."""
    found = _URL.fullmatch(text) if len(text) <= _LONGEST else None
    if found is None:
        hint = "https://HOST/PATH or http://HOST/PATH of letters, digits and . _ ~ + - %XX"
        raise BadPattern("is not the URL of an index", hint)
    scheme, user, host, port, path = found.groups()
    if user is not None:
        hint = "write the URL without: a sandbox gets no credential"
        raise BadPattern("has a user or a password", hint)
    if port and not 1 <= int(port[1:]) <= 65535:
        raise BadPattern("has a port that does not exist", "ports are 1 to 65535")
    return f"{scheme}://{_host(host)}{port or ''}{path or '/'}"


def place_of(url: str) -> tuple[Destination, Scheme]:
    """What is reached for a URL that `parse_index_url` gave."""
    scheme, _, rest = url.partition("://")
    host, _, port = rest.partition("/")[0].partition(":")
    usual: Scheme = "tls" if scheme == "https" else "http"
    return Destination(parse_host(host.encode()), int(port or DEFAULT_PORTS[usual])), usual


def _host(text: str) -> str:
    try:
        host = parse_host(text.encode()).text
    except Malformed:
        raise BadPattern("has no host name", "addresses are never reached") from None
    HostPattern(host)
    return host
