"""The bill of materials of a version, as CycloneDX: `python -m tools.sbom DIRECTORY`.

What an installation consists of: gitmoat and everything it needs at run time, at the versions and
with the hashes of requirements.lock. The same input gives the same bytes. cyclonedx-py would bring
23 more packages, has no licences or dependencies when it reads a lock, and has the tools of
development when it reads this environment.
"""

from __future__ import annotations

import json
import re
import sys
import uuid
from importlib.metadata import distribution
from pathlib import Path
from typing import Any

from attrs import frozen
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

LOCK = Path(__file__).parents[1] / "requirements.lock"
NAME = "gitmoat"
_PIN = re.compile(r"^([A-Za-z0-9._-]+)==(\S+)((?:\s*\\\n\s+--hash=sha256:[0-9a-f]{64})+)", re.M)
_HASH = re.compile(r"sha256:([0-9a-f]{64})")


def needed(name: str) -> dict[str, set[str]]:
    """Everything `name` needs at run time → what that itself needs directly."""
    found: dict[str, set[str]] = {}
    waiting: list[tuple[str, set[str]]] = [(name, set())]
    while waiting:
        current, extras = waiting.pop()
        known = found.setdefault(current, set())
        for text in distribution(current).requires or ():
            each = Requirement(text)
            wanted = ("", *extras)
            if each.marker and not any(each.marker.evaluate({"extra": x}) for x in wanted):
                continue
            direct = canonicalize_name(each.name)
            if direct not in known:
                known.add(direct)
                waiting.append((direct, each.extras))
    return found


@frozen
class Pin:
    version: str
    hashes: tuple[str, ...]


def pins(lock: str) -> dict[str, Pin]:
    """What a lock pins: name → version and the hashes of all files of that version."""
    found = _PIN.findall(lock)
    return {canonicalize_name(n): Pin(version, (*_HASH.findall(h),)) for n, version, h in found}


def bill(lock: str) -> dict[str, Any]:
    pinned = pins(lock)
    graph = needed(NAME)
    others = sorted(set(graph) - {NAME})
    version = distribution(NAME).version
    return {
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "serialNumber": f"urn:uuid:{uuid.uuid5(uuid.NAMESPACE_URL, NAME + version + lock)}",
        "version": 1,
        "metadata": {"component": {"type": "application", **_component(NAME)}},
        "components": [
            {"type": "library", **_component(name), **_files(name, pinned[name])} for name in others
        ],
        "dependencies": [
            {"ref": _reference(name), "dependsOn": sorted(map(_reference, graph[name]))}
            for name in sorted(graph)
        ],
    }


def _component(name: str) -> dict[str, Any]:
    package, reference = distribution(name), _reference(name)
    stated = package.metadata.get_all("License-Expression", [])
    about = {"name": name, "version": package.version, "bom-ref": reference, "purl": reference}
    return {**about, "licenses": [{"expression": each} for each in stated]} if stated else about


def _files(name: str, pin: Pin) -> dict[str, Any]:
    """One hash per file of that version on the index; any of them may be what was installed."""
    listed = [{"alg": "SHA-256", "content": value} for value in pin.hashes]
    kept = {"type": "distribution", "url": _reference(name), "hashes": listed}
    return {"externalReferences": [kept]}


def _reference(name: str) -> str:
    return f"pkg:pypi/{name}@{distribution(name).version}"


def main() -> None:
    made = bill(LOCK.read_text(encoding="utf-8"))
    name = f"{NAME}-{made['metadata']['component']['version']}.cdx.json"
    (Path(sys.argv[1]) / name).write_text(json.dumps(made, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
