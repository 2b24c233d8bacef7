"""What package managers find in a test's internet: one package `demo` for pip, npm and apt."""

from __future__ import annotations

import base64
import hashlib
import io
import json
import shutil
import subprocess
import sysconfig
import tarfile
import zipfile
from pathlib import Path

_WHEEL = "demo-1.0-py3-none-any.whl"


def publish(www: Path, host: str) -> None:
    _pip(www / "simple" / "demo")
    _npm(www, host)
    _apt(www / "apt")


def give_pip(directory: Path) -> None:
    """pip itself: a sandbox has the system's Python, which may come without it."""
    source = Path(sysconfig.get_paths()["purelib"], "pip")
    shutil.copytree(source, directory / "pip")


def _pip(directory: Path) -> None:
    directory.mkdir(parents=True)
    metadata = "Metadata-Version: 2.1\nName: demo\nVersion: 1.0\n"
    wheel = "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
    with zipfile.ZipFile(directory / _WHEEL, "w") as archive:
        archive.writestr("demo.py", "NAME = 'demo'\n")
        archive.writestr("demo-1.0.dist-info/METADATA", metadata)
        archive.writestr("demo-1.0.dist-info/WHEEL", wheel)
        archive.writestr("demo-1.0.dist-info/RECORD", "")
    (directory / "index.html").write_text(f'<a href="{_WHEEL}">{_WHEEL}</a>\n')


def _npm(www: Path, host: str) -> None:
    manifest = {"name": "demo", "version": "1.0.0"}
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as archive:
        data = json.dumps(manifest).encode()
        entry = tarfile.TarInfo("package/package.json")
        entry.size = len(data)
        archive.addfile(entry, io.BytesIO(data))
    (www / "demo-1.0.0.tgz").write_bytes(packed.getvalue())
    digest = base64.b64encode(hashlib.sha512(packed.getvalue()).digest()).decode()
    dist = {"tarball": f"https://{host}/demo-1.0.0.tgz", "integrity": f"sha512-{digest}"}
    versions = {"1.0.0": manifest | {"dist": dist}}
    document = {"name": "demo", "dist-tags": {"latest": "1.0.0"}, "versions": versions}
    (www / "demo").write_text(json.dumps(document))


def _apt(directory: Path) -> None:
    tree = directory / "tree" / "DEBIAN"
    tree.mkdir(parents=True)
    control = "Package: demo\nVersion: 1.0\nArchitecture: all\n"
    control += "Maintainer: nobody <nobody@example.com>\nDescription: demo\n"
    (tree / "control").write_text(control)
    deb = directory / "demo_1.0_all.deb"
    subprocess.run(["dpkg-deb", "-b", str(tree.parent), str(deb)], check=True, capture_output=True)
    shutil.rmtree(tree.parent)
    data = deb.read_bytes()
    about = f"Filename: ./{deb.name}\nSize: {len(data)}\n"
    about += f"SHA256: {hashlib.sha256(data).hexdigest()}\n"
    (directory / "Packages").write_text(control + about)
