"""Everything a sidecar will ever need, imported and run once before the fork.

A confined child cannot import: a module first needed there is a crash. No reactor stays,
because its epoll descriptor would be shared by every child.
"""

from __future__ import annotations

import codecs
import importlib
import sys
import time
from typing import Final

from twisted.internet.error import ConnectionDone
from twisted.python.failure import Failure

from identity.tlsoptions import prepare_client
from sidecar.layout import gather
from sidecar.logs import log_to
from sidecar.rehearsal import Rehearsal

# Imported lazily by Python or Twisted; most of them only when something goes wrong.
_MODULES: Final = (
    "encodings.ascii",
    "encodings.idna",
    "encodings.latin_1",
    "encodings.utf_8",
    "linecache",
    "stringprep",
    "tokenize",
    "traceback",
    "twisted.internet.epollreactor",
    "twisted.internet.tcp",
    "twisted.internet.unix",
    "twisted.logger",
    "twisted.python.log",
    "unicodedata",
)
_CODECS: Final = ("ascii", "idna", "latin-1", "utf-8")


def warm() -> None:
    """Call once in the zygote."""
    for name in _MODULES:
        importlib.import_module(name)
    for name in _CODECS:
        codecs.lookup(name)
    time.localtime()
    _log_a_failure()
    gather(lambda: Rehearsal().play())
    prepare_client()
    log_to(sys.stderr)  # descriptor 2 of whoever says something
    if "twisted.internet.reactor" in sys.modules:
        raise RuntimeError("a reactor exists before the fork")


def _log_a_failure() -> None:
    """The path an unexpected error takes, with its traceback."""
    try:
        raise ConnectionDone
    except ConnectionDone:
        Failure().getTraceback()
