"""Source packages of this machine's archive, without a change to the machine's own sources."""

from __future__ import annotations

import os
import re
import subprocess
import tempfile
from pathlib import Path

_SOURCES = Path("/etc/apt")
_SECONDS = 300


def as_source(text: str, kind: str) -> str:
    """A file of sources that names the same archives, for source packages only."""
    if kind == "sources":
        return re.sub(r"(?mi)^types:.*$", "Types: deb-src", text)
    lines = [line for line in text.splitlines() if re.match(r"\s*deb\s", line)]
    return "".join(re.sub(r"^\s*deb\b", "deb-src", line) + "\n" for line in lines)


def fetch_upstream_source(package: str, into: Path) -> None:
    """`PACKAGE_VERSION.orig.tar.*`: what the distribution took over, before its patches.

    apt compares it with what the signed index of the archive says.
    """
    with tempfile.TemporaryDirectory(prefix="gm-apt-") as directory:
        root = Path(directory)
        root.chmod(0o755)
        for folder in ("sources", "lists/partial", "archives/partial"):
            (root / folder).mkdir(parents=True)
        files = [*_SOURCES.glob("sources.list.d/*"), _SOURCES / "sources.list"]
        for file in files:
            kind = file.suffix.removeprefix(".")
            if kind in ("list", "sources") and file.is_file():
                (root / "sources" / file.name).write_text(as_source(file.read_text(), kind))
        configuration = root / "apt.conf"
        configuration.write_text(
            f'Dir::Etc::sourcelist "{root}/none";\n'
            f'Dir::Etc::sourceparts "{root}/sources";\n'
            f'Dir::State::lists "{root}/lists";\n'
            f'Dir::Cache::archives "{root}/archives";\n'
            'Dir::Cache::pkgcache "";\n'
            'Dir::Cache::srcpkgcache "";\n'
            'APT::Sandbox::User "root";\n'
        )
        for words in (("update", "-qq"), ("source", "-qq", "--tar-only", package)):
            subprocess.run(
                ["apt-get", "--error-on=any", *words]
                if words[0] == "update"
                else ["apt-get", "--download-only", *words],
                cwd=into,
                env={**os.environ, "APT_CONFIG": str(configuration), "LC_ALL": "C"},
                stdout=subprocess.DEVNULL,
                check=True,
                timeout=_SECONDS,
            )
