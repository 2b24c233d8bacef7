"""gem: the sources of its configuration; without them, the default of the installed RubyGems."""

import re

from netpolicy.presets.places import Answer, Files, answer

_DEFAULTS = "rubygems/defaults.rb"
FILES = (
    "etc/gemrc",
    "root/.gemrc",
    f"usr/lib/ruby/vendor_ruby/{_DEFAULTS}",
    f"usr/lib/ruby/*/{_DEFAULTS}",
    f"usr/local/lib/ruby/*/{_DEFAULTS}",
)
_SOURCES = re.compile(r"^:sources:[ \t]*\n((?:[ \t]*-[ \t]+\S+[ \t]*\n?)+)", re.MULTILINE)
_ITEM = re.compile(r"-[ \t]+[\"']?([^\"'\s]+)")
_DEFAULT = re.compile(r"def self\.default_sources\s+%w\[([^\]]*)\]")


def read(files: Files) -> Answer:
    urls: list[tuple[str, str]] = []
    for path, text in files.items():
        found = _SOURCES.search(text) if path.endswith("gemrc") else None
        if found is not None:
            urls = [(url, path) for url in _ITEM.findall(found[1])]
    return answer(urls or _default(files))


def _default(files: Files) -> list[tuple[str, str]]:
    for path, text in files.items():
        found = _DEFAULT.search(text) if path.endswith(_DEFAULTS) else None
        if found is not None:
            return [(url, f"{path} (built in)") for url in found[1].split()]
    return []
