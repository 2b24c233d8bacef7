"""The bill of materials of a version, as CycloneDX: `python -m publish.sbom DIRECTORY`.

What an installation consists of: gitmoat and everything it needs at run time, at the versions and
with the hashes of requirements.lock. Tools for development are left out. The same input gives
the same bytes.
"""

from __future__ import annotations

import json
import re
import sys
import uuid
from importlib.metadata import Distribution, distribution
from pathlib import Path
from typing import Any

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

LOCK = Path(__file__).parents[1] / "requirements.lock"
NAME = "gitmoat"
_PIN = re.compile(r"^([A-Za-z0-9._-]+)==(\S+)((?:\s*\\\n\s+--hash=sha256:[0-9a-f]{64})+)", re.M)
_HASH = re.compile(r"sha256:([0-9a-f]{64})")


def needed(name: str) -> dict[str, list[str]]:
    """Everything `name` needs at run time → what that itself needs directly."""
    found: dict[str, list[str]] = {}
    waiting = [(name, frozenset[str]())]
    while waiting:
        current, extras = waiting.pop()
        direct = _requirements(distribution(current), extras)
        known = found.setdefault(current, [])
        for each, wanted in direct.items():
            if each not in known:
                known.append(each)
                waiting.append((each, wanted))
    return {each: sorted(found[each]) for each in sorted(found)}


def _requirements(package: Distribution, extras: frozenset[str]) -> dict[str, frozenset[str]]:
    wanted: dict[str, frozenset[str]] = {}
    for text in package.requires or ():
        requirement = Requirement(text)
        marker = requirement.marker
        if marker is None or any(marker.evaluate({"extra": extra}) for extra in ("", *extras)):
            wanted[canonicalize_name(requirement.name)] = frozenset(requirement.extras)
    return wanted


def locked(text: str) -> dict[str, tuple[str, list[str]]]:
    """Name → version and hashes, as the lock has them."""
    return {
        canonicalize_name(name): (version, _HASH.findall(hashes))
        for name, version, hashes in _PIN.findall(text)
    }


def bill(lock: str) -> dict[str, Any]:
    graph, pins = needed(NAME), locked(lock)
    version = distribution(NAME).version
    references = {name: _reference(name, pins[name][0]) for name in graph if name != NAME}
    references[NAME] = _reference(NAME, version)
    return {
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "serialNumber": f"urn:uuid:{uuid.uuid5(uuid.NAMESPACE_URL, NAME + version + lock)}",
        "version": 1,
        "metadata": {"component": _component(NAME, version, "application", references[NAME])},
        "components": [_locked_component(name, pins[name]) for name in graph if name != NAME],
        "dependencies": [
            {"ref": references[name], "dependsOn": [references[each] for each in direct]}
            for name, direct in graph.items()
        ],
    }


def _locked_component(name: str, pin: tuple[str, list[str]]) -> dict[str, Any]:
    version, hashes = pin
    made = _component(name, version, "library", _reference(name, version))
    # One per file of that version on the index; any of them may be what was installed.
    kept = [{"type": "distribution", "url": made["purl"], "hashes": _hashes(hashes)}]
    return {**made, "externalReferences": kept}


def _component(name: str, version: str, kind: str, reference: str) -> dict[str, Any]:
    about = {"type": kind, "name": name, "version": version}
    return {**about, "bom-ref": reference, "purl": reference, **_licence(name)}


def _licence(name: str) -> dict[str, Any]:
    stated = distribution(name).metadata.get_all("License-Expression", [])
    return {"licenses": [{"expression": each} for each in stated]} if stated else {}


def _reference(name: str, version: str) -> str:
    return f"pkg:pypi/{name}@{version}"


def _hashes(values: list[str]) -> list[dict[str, str]]:
    return [{"alg": "SHA-256", "content": value} for value in values]


def main() -> None:
    made = bill(LOCK.read_text(encoding="utf-8"))
    name = f"{NAME}-{made['metadata']['component']['version']}.cdx.json"
    (Path(sys.argv[1]) / name).write_text(json.dumps(made, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
