"""A credential that the admin put into the broker's vault."""

from __future__ import annotations

from attrs import define

from broker.credentials.providers.credential import Credential
from broker.credentials.vault import Vault


@define(eq=False)
class VaultCredentials:
    vault: Vault
    name: str

    def credential(self) -> Credential:
        return self.vault.get(self.name)
