"""What package managers in a sandbox are told of the policy's indexes: files of /run/gitmoat, and
variables.

Files where a tool can be led to one beside the user's own, because a program that runs sees what
`reload` changes; the variables that lead there never change. pip and uv read each directory of
XDG_CONFIG_DIRS as system configuration. npm's global configuration is below the user's and the
project's. go reads one file, which is the user's, so it gets a variable. cargo is not configured:
it takes a replacement of its default registry from no variable, and its only files are the user's
and those above the project, which go before the user's.
"""

from __future__ import annotations

from netpolicy.policy import PackageIndexes
from netpolicy.presets.index_url import place_of

_PIP = "xdg/pip/pip.conf"
_UV = "xdg/uv/uv.toml"
_NPM = "npmrc"


def places(run: str) -> dict[str, str]:
    """The variables that lead to the files, which are below `run`."""
    return {"XDG_CONFIG_DIRS": f"{run}/xdg:/etc/xdg", "NPM_CONFIG_GLOBALCONFIG": f"{run}/{_NPM}"}


def files_for(index: PackageIndexes) -> dict[str, str]:
    """The text of each file by its name below /run/gitmoat; "" for one that is not to be there.

    `parse_index_url` leaves nothing in a URL that has a meaning in these texts.
    """
    pip = uv = npm = ""
    if index.pip:
        to, scheme = place_of(index.pip)
        # pip asks no index by plain HTTP that is not named so (pip's --trusted-host).
        trusted = f"trusted-host = {to.text}\n" if scheme == "http" else ""
        pip = f"[global]\nindex-url = {index.pip}\n{trusted}"
        uv = f'[[index]]\nurl = "{index.pip}"\ndefault = true\n'
    if index.npm:
        npm = f"registry={index.npm}\n"
    return {_PIP: pip, _UV: uv, _NPM: npm}


def variables_for(index: PackageIndexes) -> dict[str, str]:
    return {"GOPROXY": index.go} if index.go else {}
