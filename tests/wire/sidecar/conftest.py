"""A sidecar for each test anew."""

from tests.fakes.sidecar_requests import repositories
from tests.fakes.whole_sidecar import world

__all__ = ["repositories", "world"]
