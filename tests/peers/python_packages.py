"""Python packages of others, beside our environment: what a file of requirements pins."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from tests.peers.cache import PeerMissing, cache

_SECONDS = 900


def install(requirements: Path, into: Path) -> None:
    """From the cache, or fetched into it. pip compares each file with the sums in the file.

    What has to be built is built with the setuptools of our own environment.
    """
    digest = hashlib.sha256(requirements.read_bytes()).hexdigest()[:16]
    wheels = cache() / f"python-{sys.version_info.major}.{sys.version_info.minor}-{digest}"
    if not wheels.exists():
        with tempfile.TemporaryDirectory(dir=cache(), prefix=".new-") as directory:
            _pip("download", requirements, "--no-deps", "--dest", str(Path(directory, "wheels")))
            Path(directory, "wheels").rename(wheels)
    found = ("--no-index", "--find-links", str(wheels))
    _pip("install", requirements, "--no-deps", *found, "--target", str(into))


def _pip(verb: str, requirements: Path, *words: str) -> None:
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", verb, "--quiet"]
    done = subprocess.run(
        [
            *pip,
            "--no-build-isolation",
            "--require-hashes",
            "--requirement",
            str(requirements),
            *words,
        ],
        capture_output=True,
        env={**os.environ, "PIP_ROOT_USER_ACTION": "ignore"},
        timeout=_SECONDS,
        check=False,
    )
    if done.returncode:
        raise PeerMissing(f"pip {verb}: {done.stderr.decode(errors='replace')[-3000:]}")
