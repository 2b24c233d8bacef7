"""The version of the broker, as its answers and records say it."""

from identity.version import VERSION as VERSION
