"""What a sidecar will need, imported and made once before the fork.

A confined child cannot import: a module first needed there is a crash
(`tests/wire/sidecar/test_confined.py` looks for such). No reactor stays, because its epoll
descriptor would be shared by every child.
"""

from __future__ import annotations

import codecs
import importlib
import sys
import time
from typing import Final

from OpenSSL import SSL
from twisted.internet.error import ConnectionDone
from twisted.python.failure import Failure

from gitmoat.identity.certificates import public_key
from gitmoat.identity.tls_options import PinnedClient, PinnedServer, prepare_client
from sidecar.logs import log_to

# Imported lazily by Python or Twisted; most of them only when something goes wrong.
_MODULES: Final = (
    "encodings.ascii",
    "encodings.idna",
    "encodings.latin_1",
    "encodings.utf_8",
    "linecache",
    "sidecar.service",
    "stringprep",
    "tokenize",
    "traceback",
    "unicodedata",
)
_CODECS: Final = ("ascii", "idna", "latin-1", "utf-8")
_PIECE: Final = 65536


def warm() -> None:
    """Call once in the zygote."""
    for name in _MODULES:
        importlib.import_module(name)
    for name in _CODECS:
        codecs.lookup(name)
    time.localtime()
    _log_a_failure()
    _shake_hands()
    prepare_client()
    log_to(sys.stderr)  # descriptor 2, which each child replaces
    if "twisted.internet.reactor" in sys.modules:
        raise RuntimeError("a reactor exists before the fork")


def _log_a_failure() -> None:
    """The path an unexpected error takes, with its traceback."""
    try:
        raise ConnectionDone
    except ConnectionDone:
        Failure().getTraceback()


def _shake_hands() -> None:
    """OpenSSL and its bindings make tables at the first handshake, which a fork then shares."""
    ours, theirs = bytes([1] * 32), bytes([2] * 32)
    pins = frozenset({public_key(theirs)})
    client = PinnedClient(ours, lambda: pins).connection()
    server = PinnedServer(theirs, lambda key: key == public_key(ours)).connection()
    for _ in range(3):
        for end, other in ((client, server), (server, client)):
            try:
                end.do_handshake()
            except SSL.WantReadError:
                pass
            try:
                other.bio_write(end.bio_read(_PIECE))
            except SSL.WantReadError:
                pass
