"""apt: the sources, in both of their formats. apk: the repositories."""

import re
from collections.abc import Iterator

from netpolicy.presets.places import Answer, Files, answer

APT_FILES = (
    "etc/apt/sources.list",
    "etc/apt/sources.list.d/*.list",
    "etc/apt/sources.list.d/*.sources",
)
APK_FILES = ("etc/apk/repositories", "etc/apk/repositories.d/*.list")
# Each within one line: over several, some texts would take very long.
_ONE_LINE = re.compile(r"^[ \t]*deb(?:-src)?[ \t]+(?:\[[^\]\n]*\][ \t]+)?(\S+)", re.MULTILINE)
_FIELD = re.compile(r"^([A-Za-z-]+):(.*(?:\n[ \t].*)*)", re.MULTILINE)
_COMMENT = re.compile(r"^#.*\n?", re.MULTILINE)
_OFF = ("no", "false", "off", "0", "without", "disable")


def read_apt(files: Files) -> Answer:
    urls = [
        (url, path)
        for path, text in files.items()
        for url in (_stanzas(text) if path.endswith(".sources") else _ONE_LINE.findall(text))
    ]
    return answer((_plain(url), path) for url, path in urls)


def read_apk(files: Files) -> Answer:
    return answer(
        (words[-1], path)
        for path, text in files.items()
        for line in text.splitlines()
        if (words := line.partition("#")[0].split())
    )


def _stanzas(text: str) -> Iterator[str]:
    for stanza in re.split(r"\n[ \t]*\n", _COMMENT.sub("", text)):
        fields = {name.lower(): value for name, value in _FIELD.findall(stanza)}
        if fields.get("enabled", "yes").strip().lower() not in _OFF:
            yield from fields.get("uris", "").split()


def _plain(url: str) -> str:
    """`mirror+https:` asks the same host, for a list of mirrors."""
    return url.removeprefix("mirror+")
