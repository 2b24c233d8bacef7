"""The git servers a broker serves, every spelling of their URLs, and the git config of a sandbox.

`spellings` is the one list: what git rewrites in the sandbox is what `--repo URL` accepts.
"""

import re
from collections.abc import Iterable, Iterator, Mapping

from attrs import field, frozen

from gitmoat.wire.git.repository_name import Place, RepositoryPath, parse_repository
from gitmoat.wire.malformed import Malformed
from netpolicy.author import Author
from netpolicy.format.reading import PolicyError, Table, open_table
from netpolicy.patterns.matchers import is_upstream_name

DEFAULT_IDLE = 60
_LONGEST_IDLE = 86400
_AUTHORITY = re.compile(r"((?:[A-Za-z][A-Za-z0-9+.-]*://)?)((?:[^/@]*@)?)([^/@:]*)")
_WORKSPACE = re.compile(r"/[ -~]*")


def fold_host(url: str) -> str:
    """Scheme and host in lower case: they have no other spelling (RFC 3986, 6.2.2.1)."""

    def fold(found: re.Match[str]) -> str:
        return found[1].lower() + found[2] + found[3].lower()

    return _AUTHORITY.sub(fold, url, count=1)


def without_userinfo(url: str) -> str:
    """For messages: what stands before an `@` may be a password."""
    start, _, rest = url.rpartition("@")
    scheme, separator, _ = start.partition("://")
    return (scheme + separator if separator else "") + rest


def _canonical(host: str) -> str:
    return host.removesuffix(":443")


def _all_canonical(hosts: Iterable[str]) -> tuple[str, ...]:
    return tuple(map(_canonical, hosts))


@frozen
class Upstream:
    """One git server. `hosts` are `host` or `host:port`; the first is the url's own."""

    name: str = field()
    hosts: tuple[str, ...] = field(converter=_all_canonical)
    case_insensitive: bool

    def url_of(self, path: RepositoryPath) -> str:
        return f"https://{self.hosts[0]}/{path.text}.git"

    @name.validator
    def _check_name(self, _attribute: object, name: str) -> None:
        if not is_upstream_name(name):
            raise ValueError("not a name for an upstream: lower-case letters, digits and -")

    @hosts.validator
    def _check_hosts(self, _attribute: object, hosts: tuple[str, ...]) -> None:
        if not hosts:
            raise ValueError("an upstream needs a host")
        try:
            [Place(host) for host in hosts]
        except Malformed:
            raise ValueError("not a host, or a host and a port, in lower case") from None


@frozen
class UpstreamTable:
    """Upstreams with distinct names, none of whose hosts belongs to two.

    `idle` is how many seconds the broker waits for a byte; a sidecar waits longer than that.
    """

    upstreams: tuple[Upstream, ...] = field()
    idle: int = DEFAULT_IDLE

    @upstreams.validator
    def _check(self, _attribute: object, upstreams: tuple[Upstream, ...]) -> None:
        names = [upstream.name for upstream in upstreams]
        if len(names) != len(set(names)):
            raise ValueError("two upstreams have one name")
        hosts = [host for upstream in upstreams for host in upstream.hosts]
        if len(hosts) != len(set(hosts)):
            raise ValueError("a host is listed twice")

    def by_name(self, name: str) -> Upstream | None:
        return next((each for each in self.upstreams if each.name == name), None)

    def folds(self, name: str) -> bool:
        """Whether this upstream is known to ignore case in the names of repositories."""
        known = self.by_name(name)
        return known is not None and known.case_insensitive

    def by_place(self, place: Place) -> Upstream | None:
        """The upstream of `host[:port]`; an upstream's name is not a place here."""
        host = _canonical(place.text)
        return next((each for each in self.upstreams if host in each.hosts), None)

    @property
    def names(self) -> frozenset[str]:
        """The host names of every git server, without ports."""
        return frozenset(name for each in self.upstreams for name in _bare_names(each))

    def locate(self, url: str) -> tuple[Upstream, RepositoryPath] | None:
        """The upstream and the repository of a URL as people type it, or of `UPSTREAM:PATH`."""
        folded = fold_host(url)
        for prefix, upstream in self.spellings():
            if folded.startswith(prefix):
                return _located(upstream, folded.removeprefix(prefix))
        name, _, path = url.partition(":")
        named = self.by_name(name)
        return None if named is None else _located(named, path)

    def spellings(self) -> Iterator[tuple[str, Upstream]]:
        """Every beginning of a URL that means an upstream."""
        for upstream in self.upstreams:
            for prefix in self._prefixes(upstream):
                yield prefix, upstream

    def _prefixes(self, upstream: Upstream) -> dict[str, None]:
        prefixes: list[str] = []
        for host in upstream.hosts:
            name, _, port = host.partition(":")
            prefixes.append(f"https://{host}/")
            if not port:
                prefixes.append(f"https://{host}:443/")
            if self._owner(name) is upstream:
                prefixes += _other_schemes(name)
        return dict.fromkeys(prefixes)

    def _owner(self, name: str) -> Upstream | None:
        """The upstream that a bare host name means in URLs of ssh and git, whose ports differ from
        those of https."""
        exact = self.by_place(Place(name))
        if exact is not None:
            return exact
        owners = [each for each in self.upstreams if name in _bare_names(each)]
        return owners[0] if len(owners) == 1 else None

    def to_mapping(self) -> dict[str, object]:
        return {
            "upstreams": [
                {
                    "name": each.name,
                    "hosts": list(each.hosts),
                    "case_insensitive": each.case_insensitive,
                }
                for each in self.upstreams
            ],
            "idle": self.idle,
        }

    @classmethod
    def from_mapping(cls, data: Mapping[str, object]) -> "UpstreamTable":
        """PolicyError for anything but what `to_mapping` makes."""
        table = open_table(data)
        upstreams = tuple(map(_upstream, table.tables("upstreams")))
        idle = table.number("idle", DEFAULT_IDLE, _LONGEST_IDLE)
        table.close()
        try:
            return cls(upstreams, idle)
        except ValueError as error:
            raise PolicyError("upstreams", str(error)) from None


def _bare_names(upstream: Upstream) -> set[str]:
    return {host.partition(":")[0] for host in upstream.hosts}


def _other_schemes(name: str) -> list[str]:
    # ssh on 443 is how GitHub offers ssh behind firewalls (ssh.github.com).
    ssh = [f"{scheme}://git@{name}" for scheme in ("ssh", "git+ssh", "ssh+git")]
    ends = [f"{start}{port}/" for start in ssh for port in ("", ":22", ":443")]
    return [f"git@{name}:", *ends, f"git://{name}/", f"git://{name}:9418/"]


def _located(upstream: Upstream, path: str) -> tuple[Upstream, RepositoryPath] | None:
    if not path.isascii():
        return None
    try:
        return upstream, parse_repository(path.encode())
    except Malformed:
        return None


def _upstream(table: Table) -> Upstream:
    name = table.text("name")
    hosts = table.parsed_all("hosts", str)
    case_insensitive = table.flag("case_insensitive")
    table.close()
    try:
        return Upstream(name, hosts, case_insensitive)
    except ValueError as error:
        raise PolicyError(table.path, str(error)) from None


def rewriting_for(table: UpstreamTable, port: int) -> str:
    """The part of it that leads every upstream URL to the sidecar."""
    lines = [line for upstream in table.upstreams for line in _rewriting(table, upstream, port)]
    return "".join(f"{line}\n" for line in lines)


def gitconfig_for(
    table: UpstreamTable, port: int, workspace: str, author: Author, image: str | None = None
) -> str:
    """The git config mounted into the sandbox.

    `image`: the file that has what an image's own says. Of several prefixes of one length git
    takes the first, of other settings the last (git-config(1)); so ours stand on both sides of it.
    """
    if _WORKSPACE.fullmatch(workspace) is None:
        raise ValueError("a workspace is an absolute path of printable ASCII")
    lines = [] if image is None else ["[include]", f"\tpath = {_quoted(image)}"]
    lines += ["[credential]", "\thelper =", "[safe]", f"\tdirectory = {_quoted(workspace)}"]
    lines += ["[user]", f"\tname = {_quoted(author.name)}", f"\temail = {_quoted(author.email)}"]
    return rewriting_for(table, port) + "".join(f"{line}\n" for line in lines)


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def _rewriting(table: UpstreamTable, upstream: Upstream, port: int) -> Iterator[str]:
    yield f'[url "http://127.0.0.1:{port}/{upstream.hosts[0]}/"]'
    for prefix, owner in table.spellings():
        if owner is upstream:
            yield f"\tinsteadOf = {prefix}"
