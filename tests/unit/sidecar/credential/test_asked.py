from __future__ import annotations

import pytest

from credential_helper.gitcredential import Request
from sidecar.credential.asked import repository_asked
from tests.fakes.sidecar_scope import SCOPE


def asked(path: str, host: str = "127.0.0.1:418", username: str | None = None) -> str | None:
    located = repository_asked(SCOPE, Request("get", "http", host, path, username))
    return None if located is None else f"{located.upstream.name}:{located.scoped.path}"


@pytest.mark.parametrize(
    ("path", "scoped"),
    [
        ("hub.example/acme/app", "hub:acme/app"),
        ("hub.example/acme/app.git", "hub:acme/app"),
        ("hub.example/acme/app.git/", "hub:acme/app"),
        ("www.hub.example/acme/gate.git", "hub:acme/gate"),
        ("hub.example/ACME/App", "hub:acme/app"),
        ("git.corp.example:8443/Team/Tool.git", "corp:Team/Tool"),
    ],
)
def test_every_spelling_of_an_allowed_repository_is_that_repository(path: str, scoped: str) -> None:
    assert asked(path) == scoped


@pytest.mark.parametrize(
    "path",
    [
        "",
        "hub.example",
        "hub.example/",
        "/acme/app",
        "hub.example//acme/app",
        "hub.example/acme/other",
        "hub.example/acme/web-secrets",
        "hub.example/acme/../acme/app",
        "hub.example/acme/%61pp",
        "hub.example/acme/app.git.git",
        "hub/acme/app",
        "HUB.example/acme/app",
        "other.example/acme/app",
        "git.corp.example/Team/Tool",
        "git.corp.example:8443/team/tool",
    ],
)
def test_unknown_forbidden_and_misspelt_repositories_are_refused(path: str) -> None:
    assert asked(path) is None


@pytest.mark.parametrize("host", ["127.0.0.1:419", "127.0.0.1", "hub.example", "[::1]:418"])
def test_only_the_helper_port_is_a_host(host: str) -> None:
    assert asked("hub.example/acme/app", host=host) is None


def test_a_user_name_in_the_url_must_be_ours() -> None:
    assert asked("hub.example/acme/app", username="gitmoat") == "hub:acme/app"
    assert asked("hub.example/acme/app", username="admin") is None
