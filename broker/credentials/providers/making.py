"""A provider for each [provider.NAME]; the one list of kinds."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, assert_never

from attrs import frozen

from broker.config.settings import (
    AppProvider,
    FileProvider,
    HelperProvider,
    ProviderConfig,
    VaultProvider,
)
from broker.config.tree import Tree
from broker.credentials.helper_link import HelperLink
from broker.credentials.providers.cache import Cache
from broker.credentials.providers.credential import AtOnce, Permitted, Provider
from broker.credentials.providers.file import FileCredentials
from broker.credentials.providers.github_app import AppCredentials, read_app_key
from broker.credentials.providers.helper import FAILURE_SECONDS, HelperCredentials
from broker.credentials.providers.vaulted import VaultCredentials
from broker.credentials.vault import Vault
from broker.upstream.dialler import Dialler


@frozen(eq=False)
class Maker:
    """What the providers need of the broker."""

    reactor: Any
    now: Callable[[], float]
    tree: Tree
    vault: Vault
    ids: tuple[int, int]
    link: HelperLink
    wall: Callable[[], float] = time.time

    def provider(
        self, name: str, config: ProviderConfig, others: Callable[[str], Provider]
    ) -> Provider:
        """`others`: the providers by name, for a proxy's credential."""
        return Permitted(self._made(name, config, others))

    def _made(
        self, name: str, config: ProviderConfig, others: Callable[[str], Provider]
    ) -> Provider:
        match config:
            case FileProvider(username=username, password_file=password_file):
                return AtOnce(FileCredentials(self.tree, password_file, username, *self.ids))
            case VaultProvider():
                return AtOnce(VaultCredentials(self.vault, name))
            case HelperProvider():
                kept = Cache(self.now, FAILURE_SECONDS)
                return HelperCredentials(self.reactor, self.link, name, self.wall, kept)
            case AppProvider():
                return self._app(config, others)
            case _:
                assert_never(config)

    def _app(self, config: AppProvider, others: Callable[[str], Provider]) -> Provider:
        return AppCredentials(
            self.reactor,
            Dialler(self.reactor),
            config,
            lambda: read_app_key(self.tree, config.private_key_file, self.ids),
            self.now,
            self.wall,
            others,
            Cache(self.now),
        )
