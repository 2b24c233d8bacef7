"""Worlds of the wire tests, used here with hostile bytes."""

from tests.wire.broker.conftest import Scene, scene
from tests.wire.sidecar.conftest import world

__all__ = ["Scene", "scene", "world"]
