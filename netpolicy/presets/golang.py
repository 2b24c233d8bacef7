"""go: GOPROXY and GOSUMDB of its environment files; the default is in the installed go.env."""

import re

from netpolicy.presets.places import Answer, Files, answer

FILES = (
    "usr/lib/go/go.env",
    "usr/lib/go-*/go.env",
    "usr/local/go/go.env",
    "root/.config/go/env",
)
_LINE = re.compile(r"^(GOPROXY|GOSUMDB)=(.*)$", re.MULTILINE)
_DIRECT = "go: `direct` fetches from git servers by itself; such modules need git rules instead"


def read(files: Files) -> Answer:
    last: dict[str, tuple[str, str]] = {}
    for path, text in files.items():
        for key, value in _LINE.findall(text):
            last[key] = (value.strip(), path)
    listed, source = last.get("GOPROXY", ("", ""))
    named = re.split(r"[,|]", listed)
    proxies = [(url, source) for url in named if "://" in url]
    database, source = last.get("GOSUMDB", ("off", ""))
    databases = [(_database(database), source)] if database not in ("", "off") else []
    return answer([*proxies, *databases], [_DIRECT] if "direct" in named else [], proxies[:1])


def _database(text: str) -> str:
    """`name`, `name+key` or `name+key url`."""
    name, _, url = text.partition(" ")
    return url.strip() or f"https://{name.partition('+')[0]}/"
