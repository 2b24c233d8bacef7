"""The socket on which hostd finds this sidecar: one connection counts, the newest."""

from __future__ import annotations


