"""The plan of a sandbox: everything that is decided before anything is made; kept in its record."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from attrs import asdict, field, frozen

from gitmoat.wire.git.repository_name import RepositoryPath
from hostd.process.cgroups import ResourceLimits
from hostd.sandbox.uids import UidRange
from hostd.sandbox.workdir import Workdir
from netpolicy.author import Author, parse_author
from netpolicy.format.document import policy_from_mapping
from netpolicy.format.reading import PolicyError
from netpolicy.format.writing import policy_digest, policy_to_mapping
from netpolicy.nftables import Uids
from netpolicy.policy import Policy
from netpolicy.rule_kind import NamedRepository
from netpolicy.upstreams import Upstream, UpstreamTable

# The keys of a plan in a record.
KEYS = (
    "id", "name", "uid_index", "policy", "repositories", "upstreams", "workdir", "limits", "source",
    "image", "author",
)  # fmt: skip


@frozen
class Repository:
    """A repository to be cloned into the workspace, as typed and as understood."""

    url: str
    upstream: Upstream
    path: RepositoryPath
    directory: str

    @property
    def name(self) -> str:
        return self.path.text.rpartition("/")[2]

    @property
    def named(self) -> NamedRepository:
        return NamedRepository(self.upstream.name, self.path, self.upstream.case_insensitive)

    def to_json(self) -> dict[str, str]:
        return {"url": self.url, "directory": self.directory}

    def gate_url(self, port: int) -> str:
        return f"http://127.0.0.1:{port}/{self.upstream.hosts[0]}/{self.path.text}.git"


@frozen
class Ours:
    """A container that hostd makes of this image, and starts and ends."""

    image: str


@frozen
class Theirs:
    """A container that somebody else starts, and that `attach` is told of."""


def ownership_of(image: str | None) -> Ours | Theirs | None:
    """As a record says it; None means bubblewrap, without a container."""
    if image is None:
        return None
    return Ours(image) if image else Theirs()


def image_of(ownership: Ours | Theirs | None) -> str | None:
    return ownership.image if isinstance(ownership, Ours) else "" if ownership else None


@frozen
class PolicySource:
    """The installed policy that a sandbox was started with, and --push and --allow-host."""

    name: str
    push: tuple[str, ...] = ()
    hosts: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        return {"name": self.name, "push": list(self.push), "hosts": list(self.hosts)}


@frozen(kw_only=True)
class Plan:
    id: str
    name: str
    uid_index: int
    uids: Uids
    policy: Policy
    upstreams: UpstreamTable
    repositories: tuple[Repository, ...]
    limits: ResourceLimits
    workdir: Workdir | None = None
    source: PolicySource | None = None
    ownership: Ours | Theirs | None = None
    author: Author = field(factory=Author)

    @property
    def runtime(self) -> str:
        return "bwrap" if self.ownership is None else "docker"

    @property
    def foreign(self) -> bool:
        """Somebody else makes, starts and ends its container."""
        return isinstance(self.ownership, Theirs)

    @property
    def policy_hash(self) -> str:
        return policy_digest(self.policy)

    def to_json(self) -> dict[str, Any]:
        return {
            "id": self.id,
            "name": self.name,
            "uid_index": self.uid_index,
            "policy": policy_to_mapping(self.policy),
            "repositories": [each.to_json() for each in self.repositories],
            "upstreams": self.upstreams.to_mapping(),
            "workdir": None if self.workdir is None else self.workdir.to_json(),
            "limits": asdict(self.limits),
            "source": None if self.source is None else self.source.to_json(),
            "image": image_of(self.ownership),
            **({} if self.author == Author() else {"author": str(self.author)}),
        }

    @staticmethod
    def from_json(data: Mapping[str, Any], uids: UidRange) -> Plan:
        """Raises PolicyError if it cannot be understood: another version wrote it."""
        upstreams = UpstreamTable.from_mapping(data.get("upstreams", {}))
        try:
            return Plan(
                id=data["id"],
                name=data["name"],
                uid_index=data["uid_index"],
                uids=uids.at(data["uid_index"]),
                policy=policy_from_mapping(data["policy"]),
                upstreams=upstreams,
                repositories=tuple(
                    _repository(each, upstreams) for each in data.get("repositories", ())
                ),
                limits=ResourceLimits(**data.get("limits", {})),
                workdir=Workdir.from_json(data.get("workdir")),
                source=_source(data.get("source")),
                ownership=ownership_of(data.get("image")),
                author=_author(data.get("author")),
            )
        except (TypeError, ValueError, KeyError):
            raise PolicyError("record", "written by another version") from None


def _repository(data: Mapping[str, str], upstreams: UpstreamTable) -> Repository:
    located = upstreams.locate(data["url"])
    if located is None:
        raise PolicyError("repositories", "written by another version")
    return Repository(data["url"], *located, data["directory"])


def _author(text: str | None) -> Author:
    return Author() if text is None else parse_author(text)


def _source(data: Mapping[str, Any] | None) -> PolicySource | None:
    if data is None:
        return None
    return PolicySource(data["name"], tuple(data["push"]), tuple(data["hosts"]))
