"""pip: the index of its configuration; without one, the index built into the installed pip."""

import ast
import configparser
from collections.abc import Iterator

from netpolicy.presets.places import Answer, Files, answer

_BUILT_IN = "pip/_internal/models/index.py"
FILES = (
    "etc/xdg/pip/pip.conf",
    "etc/pip.conf",
    "root/.pip/pip.conf",
    "root/.config/pip/pip.conf",
    f"usr/lib/python3/dist-packages/{_BUILT_IN}",
    f"usr/lib/python3*/site-packages/{_BUILT_IN}",
    f"usr/share/python-wheels/pip-*.whl!{_BUILT_IN}",
    f"usr/lib/python3*/ensurepip/_bundled/pip-*.whl!{_BUILT_IN}",
)
_SECTIONS = ("global", "install", "download")


def read(files: Files) -> Answer:
    index: list[tuple[str, str]] = []
    extra: list[tuple[str, str]] = []
    notes: list[str] = []
    for path, text in files.items():
        if path.endswith(_BUILT_IN):
            continue
        parser = configparser.RawConfigParser(strict=False)
        try:
            parser.read_string(text)
        except configparser.Error:
            notes.append(f"{path}: not understood")
            continue
        index = _urls(parser, "index-url", path) or index
        extra += _urls(parser, "extra-index-url", path)
    default: list[tuple[str, str]] = []
    if not index:
        default = next(filter(None, (_built_in(p, t) for p, t in files.items())), [])
    return answer([*index, *default, *extra], notes, index)


def _urls(parser: configparser.RawConfigParser, key: str, path: str) -> list[tuple[str, str]]:
    found = []
    for section in _SECTIONS:
        for spelling in (key, key.replace("-", "_")):
            value = parser.get(section, spelling, fallback="")
            found += [(url, path) for url in value.split()]
    return found


def _built_in(path: str, text: str) -> list[tuple[str, str]]:
    """The literal arguments of `PyPI = PackageIndex(...)`: parsed, never executed."""
    if not path.endswith(_BUILT_IN):
        return []
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError):
        return []
    return [(url, f"{path} (built in)") for call in _calls(tree) for url in _literals(call)]


def _calls(tree: ast.Module) -> Iterator[ast.Call]:
    for node in tree.body:
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Call):
            names = [target.id for target in node.targets if isinstance(target, ast.Name)]
            if names == ["PyPI"]:
                yield node.value


def _literals(call: ast.Call) -> Iterator[str]:
    values = [*call.args, *(keyword.value for keyword in call.keywords)]
    for value in values:
        if isinstance(value, ast.Constant) and isinstance(value.value, str):
            text = value.value
            yield text if "://" in text else f"https://{text}/"
