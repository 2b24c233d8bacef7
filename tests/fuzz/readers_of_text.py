"""As `readers`, for what is read whole: answers of servers and programs, and reports."""

from __future__ import annotations

import json
import math

from broker.api.reported import recorded
from broker.config.settings import UpstreamConfig
from broker.config.values import Address
from broker.credentials.providers.credential import CredentialRequest
from broker.credentials.providers.github_api import Limited, Minted, Skewed, read_outcome
from broker.credentials.providers.helper_answer import read_answer
from broker.sessions.running import AdminTask
from credential_helper.gitcredential import CredentialMalformed, format_answer, parse_answer
from gitmoat.messages.report import parse_report
from gitmoat.shape import Misshapen
from gitmoat.wire.hostname import parse_host
from gitmoat.wire.http.heads import RequestReader, ResponseReader
from gitmoat.wire.http.proxying import classify_direct, format_plain
from gitmoat.wire.malformed import Malformed
from hostctl.copy.tarstream import (
    END,
    Entry,
    Event,
    Kind,
    TarMalformed,
    TarReader,
    format_entry,
    padding,
)
from hostd.gate.refspecs import (
    parse_branch,
    parse_names,
    parse_objects,
    parse_refs,
    parse_resolved,
)

_NAME = parse_host(b"web.example")
_STEPS = (1, 100, 512)
_GITHUB = UpstreamConfig("gh", Address("github.com", 443), (), (), "p", True)
_NEED = CredentialRequest(AdminTask("test"), _GITHUB, repository="acme/app", write=False)


def sidecar_report(data: bytes) -> None:
    """A sidecar that was taken over wrote it; what is recorded is one line of JSON."""
    try:
        event = recorded(parse_report(data), "sb", "s")
    except Misshapen as malformed:
        assert malformed.what.isascii()
        return
    line = json.dumps(event.fields())
    assert "\n" not in line and len(line) < 4096


def github_answer(data: bytes) -> None:
    """A head, and a body behind it."""
    reader = ResponseReader()
    try:
        head = reader.feed(data)
    except Malformed:
        return
    if head is None:
        return
    outcome = read_outcome(head, reader.leftover, _NEED, 1_700_000_000.0)
    match outcome:
        case Minted(credential, seconds):
            assert head.status == 201 and credential.username == "x-access-token"
            assert 0.0 <= seconds <= 3600.0
        case Limited(seconds):
            assert 1 <= seconds <= 3600
        case Skewed(seconds):
            assert math.isfinite(seconds)


def helper_answer(data: bytes) -> None:
    """The owner's own credential helper; what is wrong with its answer quotes nothing of it."""
    found = read_answer(data, "hub.example")
    if isinstance(found, str):
        assert found.isascii() and found.startswith(("has ", "gave ", "told ", "answered "))
    else:
        assert found.username.isprintable() and found.username.isascii()


def credential_answer(data: bytes) -> None:
    """What the helper takes from a sidecar."""
    try:
        found = parse_answer(data)
    except CredentialMalformed as malformed:
        assert malformed.what.isascii()
        return
    if found is not None:
        assert parse_answer(format_answer(*found)) == found


def direct_request(data: bytes) -> None:
    """Plain HTTP to a synthetic address; what goes on names the host of that address."""
    try:
        head = RequestReader().feed(data)
        if head is None:
            return
        request = classify_direct(head, _NAME)
        ours = format_plain(request, head, (), absolute=False)
    except Malformed as malformed:
        assert malformed.what.isascii()
        return
    again = RequestReader().feed(ours)
    assert again is not None and again.header(b"host") == b"web.example"
    assert (again.method, again.framing) == (head.method, head.framing)


def workspace_answer(data: bytes) -> None:
    """What a hostile repository's git prints."""
    branch = parse_branch(data)
    assert branch is None or branch.text.startswith("refs/heads/")
    ids = [*parse_objects(data, 5), *filter(None, parse_resolved(data, 5))]
    assert parse_names(data, ["refs/heads/a"]) <= {"refs/heads/a"}
    refs = parse_refs(data, 5)
    assert len(refs) <= 5 and all("\n" not in ref and " " not in ref for ref in refs)
    assert all(len(each) in (40, 64) and int(each, 16) >= 0 for each in [*ids, *refs.values()])


def tar_stream(data: bytes) -> None:
    """`hostctl cp` out of a sandbox; the same however it is cut, and it can be written again."""
    found = [_tar(data, step) for step in (len(data) or 1, *_STEPS)]
    assert all(each == found[0] for each in found), "the cut decides"
    if found[0] is None:
        return
    ours = b"".join(format_entry(entry) + body + padding(entry.size) for entry, body in found[0])
    assert _tar(ours + END, 512) == [(_slashed(entry), body) for entry, body in found[0]]


def _slashed(entry: Entry) -> Entry:
    """As our own tar names a directory."""
    if entry.kind is Kind.DIRECTORY and not entry.name.endswith(b"/"):
        return entry._replace(name=entry.name + b"/")
    return entry


def _tar(data: bytes, step: int) -> list[tuple[Entry, bytes]] | None:
    reader = TarReader()
    events: list[Event] = []
    try:
        for at in range(0, len(data), step):
            events += reader.feed(data[at : at + step])
            assert reader.held <= 4097
        reader.finish()
    except TarMalformed:
        return None
    whole: list[tuple[Entry, bytes]] = []
    for event in events:
        if isinstance(event, Entry):
            whole.append((event, b""))
        else:
            whole[-1] = whole[-1][0], whole[-1][1] + event
    return whole


WHOLE = (
    sidecar_report,
    github_answer,
    helper_answer,
    credential_answer,
    direct_request,
    workspace_answer,
    tar_stream,
)
