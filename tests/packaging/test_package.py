"""What is built can be installed: from the wheel alone, offline, with everything in it."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tarfile
import venv
from pathlib import Path
from zipfile import ZipFile

import pytest

from hostctl.arguments import VERBS
from tests.stage.sources import product_files
from tools import sbom
from tools.size import PARTS

ROOT = Path(__file__).parents[2]
UNITS = ROOT / "packaging" / "systemd"


def run(*words: str | Path, cwd: str | Path = "/", **environment: str) -> str:
    done = subprocess.run(
        [str(word) for word in words],
        capture_output=True,
        text=True,
        cwd=cwd,
        env={"PATH": "/usr/bin:/bin", "LANG": "C.UTF-8", **environment},
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of what the repository tracks, with man pages; the build writes into its tree."""
    copy = tmp_path_factory.mktemp("tree")
    listed = run(
        "git", "-c", f"safe.directory={ROOT}", "-C", ROOT, "ls-files", "-coz", "--exclude-standard"
    )
    for name in filter(None, listed.split("\0")):
        if (ROOT / name).is_file():
            (copy / name).parent.mkdir(parents=True, exist_ok=True)
            (copy / name).write_bytes((ROOT / name).read_bytes())
    run(sys.executable, "-m", "sphinx", "-q", "-W", "-b", "man", copy / "docs", copy / "man")
    return copy


@pytest.fixture(scope="module")
def dist(tree: Path) -> Path:
    """sdist, and the wheel that comes out of it; no package is fetched."""
    run(
        *(sys.executable, "-m", "build", "--no-isolation", "--outdir", tree / "dist", tree),
        PIP_NO_INDEX="1",
    )
    return tree / "dist"


@pytest.fixture(scope="module")
def installed(dist: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A fresh environment with our wheel and nothing else of ours."""
    place = tmp_path_factory.mktemp("installed")
    venv.create(place)
    (wheel,) = dist.glob("*.whl")
    pip = (sys.executable, "-m", "pip", "--python", place / "bin" / "python")
    run(*pip, "install", "--quiet", "--no-index", "--no-deps", wheel)
    return place


def borrowed() -> str:
    """The dependencies of this environment, for one that has ours only from the wheel."""
    return next(path for path in sys.path if path.endswith("site-packages"))


def test_the_wheel_has_every_module_and_the_files_that_belong_to_it(tree: Path, dist: Path) -> None:
    (wheel,) = dist.glob("*.whl")
    names = ZipFile(wheel).namelist()
    modules = {str(path.relative_to(tree)) for path in product_files(tree)}
    assert {name for name in names if name.endswith(".py")} == modules
    assert "gitmoat/py.typed" in names
    data = {name.partition(".data/data/")[2] for name in names if ".data/data/" in name}
    assert {f"share/man/man1/hostctl-{verb}.1" for verb in VERBS} <= data
    assert {"share/man/man5/gitmoat-policy.5", "share/gitmoat/policies/agents.toml"} <= data
    units = {f"share/gitmoat/systemd/{path.name}" for path in UNITS.iterdir()}
    assert units and units <= data


def test_the_wheel_installs_the_products_names_and_no_others(dist: Path) -> None:
    (wheel,) = dist.glob("*.whl")
    tops = {name.partition("/")[0] for name in ZipFile(wheel).namelist()}
    ours = {top for top in tops if not top.startswith("gitmoat-")}
    assert ours == {part.partition(".")[0] for part in PARTS}


def test_the_sdist_can_be_tested_and_documented(dist: Path) -> None:
    (archive,) = dist.glob("*.tar.gz")
    with tarfile.open(archive) as opened:
        names = {name.partition("/")[2] for name in opened.getnames()}
    locks = ("requirements.lock", "requirements-dev.lock")
    for needed in ("Makefile", *locks, "docs/conf.py", "tests/conftest.py", ".ci/run"):
        assert needed in names


def test_the_installed_command_works(installed: Path) -> None:
    help_text = run(installed / "bin" / "hostctl", "--help")
    assert "usage: hostctl" in help_text
    version = run(installed / "bin" / "hostctl", "--version", PYTHONPATH=borrowed())
    assert re.search(r"\d+\.\d+", version)
    policy = installed / "share" / "gitmoat" / "policies" / "agents.toml"
    checked = run(installed / "bin" / "hostctl", "policy", "check", policy, PYTHONPATH=borrowed())
    assert "is valid" in checked


def test_checksums_are_of_everything_that_is_published(tree: Path, dist: Path) -> None:
    run(sys.executable, "-m", "tools.sbom", dist, PYTHONPATH=str(tree))
    run("make", "--silent", "-C", tree, "checksums")
    listed = (dist / "SHA256SUMS").read_text()
    assert {line.split()[1] for line in listed.splitlines()} == {
        path.name for path in dist.iterdir() if path.name != "SHA256SUMS"
    }
    run("sha256sum", "--strict", "-c", "SHA256SUMS", cwd=dist)


def test_the_bill_of_materials_is_what_is_needed_at_run_time_as_locked() -> None:
    lock = sbom.LOCK.read_text()
    made = sbom.bill(lock)
    assert json.dumps(made) == json.dumps(sbom.bill(lock))
    names = {each["name"]: each for each in made["components"]}
    assert {"twisted", "pynacl", "attrs", "docker", "cryptography", "pyopenssl"} <= set(names)
    for each in names.values():
        assert f"{each['name']}=={each['version']} \\" in lock.lower()
        assert each["externalReferences"][0]["hashes"]
    references = {each["bom-ref"] for each in (*made["components"], made["metadata"]["component"])}
    for entry in made["dependencies"]:
        assert {entry["ref"], *entry["dependsOn"]} <= references
