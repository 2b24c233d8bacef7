"""How the configuration of every nginx that we start begins: it writes below its place alone."""

from __future__ import annotations

from pathlib import Path

_TEMPORARY = {
    "client_body": "body",
    "proxy": "proxy",
    "fastcgi": "fastcgi",
    "uwsgi": "uwsgi",
    "scgi": "scgi",
}


def beginning(place: Path) -> str:
    """All before `http`, and its first directives; the block is still open."""
    kept = (f"  {kind}_temp_path {place}/{name};" for kind, name in _TEMPORARY.items())
    first = f"""\
user root;
worker_processes auto;
pid {place}/nginx.pid;
error_log {place}/error.log;
events {{ worker_connections 4096; }}
http {{
  access_log off;"""
    return "\n".join((first, *kept))
