"""npm: the registries of its configuration; without one, the default of the installed npm."""

import re

from netpolicy.presets.places import Answer, Files, answer

_DEFINITIONS = "@npmcli/config/lib/definitions/definitions.js"
FILES = (
    "usr/lib/node_modules/npm/npmrc",
    "usr/share/nodejs/npm/npmrc",
    "etc/npmrc",
    "usr/etc/npmrc",
    "usr/local/etc/npmrc",
    "root/.npmrc",
    f"usr/lib/node_modules/npm/node_modules/{_DEFINITIONS}",
    f"usr/local/lib/node_modules/npm/node_modules/{_DEFINITIONS}",
    f"usr/share/nodejs/{_DEFINITIONS}",
)
_LINE = re.compile(
    r"""^[ \t]*(?:(@[^:=\s]+):)?registry[ \t]*=[ \t]*["']?([^"'\s]+)""", re.MULTILINE
)
_DEFAULT = re.compile(r"""['"]registry['"]\s*,\s*\{\s*default:\s*['"]([^'"\s]+)['"]""")


def read(files: Files) -> Answer:
    registry: list[tuple[str, str]] = []
    scoped: list[tuple[str, str]] = []
    for path, text in files.items():
        if path.endswith(_DEFINITIONS):
            continue
        for scope, url in _LINE.findall(text):
            if scope:
                scoped.append((url, path))
            else:
                registry = [(url, path)]
    return answer([*(registry or _default(files)), *scoped], index=registry)


def _default(files: Files) -> list[tuple[str, str]]:
    for path, text in files.items():
        found = _DEFAULT.search(text) if path.endswith(_DEFINITIONS) else None
        if found is not None:
            return [(found[1], f"{path} (built in)")]
    return []
