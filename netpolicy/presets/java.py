"""maven: mirrors and repositories of its settings; without a mirror, the super POM's repository."""

import re
import xml.etree.ElementTree as ET
from collections.abc import Iterator

from netpolicy.presets.places import Answer, Files, answer

_SUPER_POM = "org/apache/maven/model/pom-4.0.0.xml"
FILES = (
    "etc/maven/settings.xml",
    "usr/share/maven/conf/settings.xml",
    "root/.m2/settings.xml",
    f"usr/share/maven/lib/maven-model-builder-*.jar!{_SUPER_POM}",
    f"usr/share/maven*/lib/maven-model-builder-*.jar!{_SUPER_POM}",
)
_NAMESPACE = re.compile(r"^\{[^}]*\}")


def read(files: Files) -> Answer:
    urls: list[tuple[str, str]] = []
    notes: list[str] = []
    default: list[tuple[str, str]] = []
    everything = False
    for path, text in files.items():
        root = _parse(text)
        if root is None:
            notes.append(f"{path}: not understood")
        elif path.endswith(_SUPER_POM):
            default = default or [(url, f"{path} (built in)") for url, _ in _urls(root)]
        else:
            found = list(_urls(root))
            urls += [(url, path) for url, _ in found]
            everything = everything or any(of in ("*", "central") for _, of in found)
    return answer(urls if everything else [*urls, *default], notes)


def _parse(text: str) -> ET.Element | None:
    if "<!DOCTYPE" in text:  # entities are not for us to expand
        return None
    try:
        return ET.fromstring(text)  # noqa: S314 -- without a DOCTYPE there are no entities
    except ET.ParseError:
        return None


def _urls(root: ET.Element) -> Iterator[tuple[str, str]]:
    """The URL of every mirror and repository, and what a mirror stands for."""
    for element in root.iter():
        if _name(element) in ("mirror", "repository", "pluginRepository"):
            fields = {_name(child): (child.text or "").strip() for child in element}
            if fields.get("url") and fields.get("blocked") != "true":
                yield fields["url"], fields.get("mirrorOf", "")


def _name(element: ET.Element) -> str:
    return _NAMESPACE.sub("", str(element.tag))
