"""Imports what libraries would import late.

The interpreter and its packages may lie where the broker's uid cannot read, so after the uid is
dropped an import that was never done before fails.
"""

from __future__ import annotations

import codecs
import importlib

_CODECS = ("idna", "ascii", "utf-8", "latin-1", "unicode_escape", "punycode")
_MODULES = (
    "cryptography.hazmat.primitives.serialization",
    "cryptography.x509.verification",
    "encodings.idna",
    "idna",
    "idna.core",
    "idna.idnadata",
    "linecache",
    "service_identity.cryptography",
    "service_identity.hazmat",
    "service_identity.pyopenssl",
    "stringprep",
    "traceback",
    "twisted._threads",
    "twisted.internet._resolver",
    "twisted.internet.process",
    "twisted.internet.threads",
    "twisted.protocols.policies",
    "twisted.python.threadpool",
)


def import_everything() -> None:
    for name in _CODECS:
        codecs.lookup(name)
    for name in _MODULES:
        importlib.import_module(name)
    b"warm.example".decode("idna").encode("idna")
