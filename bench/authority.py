"""Certificates for every hop that is not ours, from one authority made for the run."""

from __future__ import annotations

from pathlib import Path

import trustme
from attrs import frozen


@frozen
class Authority:
    """Files below one directory. `both` is certificate and key in one file, for haproxy."""

    directory: Path

    @property
    def ca(self) -> Path:
        return self.directory / "ca.pem"

    def certificate(self, name: str) -> Path:
        return self.directory / f"{name}.pem"

    def key(self, name: str) -> Path:
        return self.directory / f"{name}.key"

    def both(self, name: str) -> Path:
        return self.directory / f"{name}.both"


def make_authority(directory: Path) -> Authority:
    """`server` for localhost, and `client` that shows itself to the second hop."""
    directory.mkdir(mode=0o755)
    made, authority = Authority(directory), trustme.CA()
    authority.cert_pem.write_to_path(str(made.ca))
    for name, identity in (("server", "localhost"), ("client", "sidecar.invalid")):
        issued = authority.issue_cert(identity)
        chain = b"".join(blob.bytes() for blob in issued.cert_chain_pems)
        made.certificate(name).write_bytes(chain)
        made.key(name).write_bytes(issued.private_key_pem.bytes())
        made.both(name).write_bytes(chain + issued.private_key_pem.bytes())
    return made
