"""On what a run was made: figures of one machine say little without it."""

from __future__ import annotations

import os
import platform
import re
import ssl
import subprocess
from pathlib import Path

_VERSIONS = {
    "git": ["git", "--version"],
    "nginx": ["nginx", "-v"],
    "haproxy": ["haproxy", "-v"],
    "squid": ["squid", "-v"],
    "dnsmasq": ["dnsmasq", "-v"],
    "curl": ["curl", "--version"],
}
_NUMBER = re.compile(r"[0-9]+(?:\.[0-9]+)+")


def describe() -> dict[str, str]:
    """No host name: it says nothing about speed."""
    about = {
        "cores": str(len(os.sched_getaffinity(0))),
        "processor": _field("/proc/cpuinfo", "model name"),
        "memory": f"{int(_field('/proc/meminfo', 'MemTotal').split()[0]) / 2**20:.0f} GiB",
        "load average": f"{os.getloadavg()[1]:.1f}",
        "kernel": platform.release(),
        "system": _release(),
        "Python": platform.python_version(),
        "OpenSSL": ssl.OPENSSL_VERSION.split()[1],
    }
    return about | {name: version for name in _VERSIONS if (version := _version(name))}


def _field(path: str, key: str) -> str:
    for line in Path(path).read_text().splitlines():
        name, _, value = line.partition(":")
        if name.strip() == key:
            return value.strip()
    return "?"


def _release() -> str:
    return platform.freedesktop_os_release().get("PRETTY_NAME", platform.system())


def _version(name: str) -> str:
    try:
        done = subprocess.run(_VERSIONS[name], capture_output=True, text=True, check=False)
    except FileNotFoundError:
        return ""
    found = _NUMBER.search(done.stdout + done.stderr)
    return found[0] if found else ""
