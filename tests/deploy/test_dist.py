"""The source distribution and the wheel hold what they need and nothing else, and no page names a
project that no index has."""

import json
import re
import shutil
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path, PurePosixPath

import pytest
import yaml

from deploy import release
from relevanced.daemon.extras import lacking, packages_of
from tests.test_layout import product_files, project_files

ROOT = release.ROOT


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What `make dist` makes of the files as they are now, committed there."""
    source = tmp_path_factory.mktemp("source")
    for name in project_files():
        if not name.startswith("tests/"):
            (source / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, source / name)
    run(["git", "init", "--quiet"], source)
    run(["git", "add", "."], source)
    names = ["-c", "user.name=t", "-c", "user.email=t@localhost"]
    run(["git", *names, "commit", "--quiet", "--message=all"], source)
    run(["make", "--silent", "dist", f"PYTHON={sys.executable}"], source)
    return source / "dist"


def run(command: list[str], folder: Path) -> str:
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=900)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def product() -> set[str]:
    return {str(path) for python in (True, False) for path in product_files(python)}


def test_wheel_holds_the_product(built: Path) -> None:
    (wheel,) = built.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        names = {PurePosixPath(name) for name in archive.namelist()}
    about = f"relevanced-{release.version()}.dist-info"
    assert wheel.name == f"relevanced-{release.version()}-py3-none-any.whl"
    assert {
        str(name.relative_to("relevanced")) for name in names if name.parts[0] == "relevanced"
    } == (product())
    assert {name.parts[0] for name in names} == {"relevanced", about}
    assert PurePosixPath(about, "licenses", "LICENSE") in names


def test_source_distribution_holds_what_the_wheel_is_built_from(built: Path) -> None:
    (sdist,) = built.glob("*.tar.gz")
    with tarfile.open(sdist) as archive:
        files = [PurePosixPath(member.name) for member in archive if member.isfile()]
    names = {str(name.relative_to(name.parts[0])) for name in files}
    made = {name for name in names if name.startswith("relevanced.egg-info/")}
    assert names - made == product() | set(
        "LICENSE PKG-INFO README.md pyproject.toml setup.cfg".split()
    )


@pytest.mark.parametrize("minor", [11, 12, 13])
def test_wheel_is_used_outside_of_the_checkout(built: Path, tmp_path: Path, minor: int) -> None:
    python = interpreter(minor)
    if python is None:
        pytest.skip(f"no Python 3.{minor}")
    (wheel,) = built.glob("*.whl")
    run([python, "-m", "venv", "venv"], tmp_path)
    run(["venv/bin/pip", "install", "--quiet", "--disable-pip-version-check", str(wheel)], tmp_path)
    command = "venv/bin/relevanced"
    assert release.version() in run([command, "--version"], tmp_path)
    (events,) = re.findall(r"```json\n(.+?)```", (ROOT / "README.md").read_text(), re.DOTALL)
    (tmp_path / "searches.jsonl").write_text(events)
    assert "2 impressions: accepted 2" in run([command, "replay", "searches.jsonl"], tmp_path)


def interpreter(minor: int) -> str | None:
    """A Python 3.`minor` that starts; pyenv has shims of versions that it does not run."""
    if sys.version_info[1] == minor:
        return sys.executable
    kept = sorted(Path.home().glob(f".pyenv/versions/3.{minor}.*/bin/python"))
    found = shutil.which(f"python3.{minor}") if not kept else str(kept[-1])
    if found is None or subprocess.run([found, "--version"], capture_output=True).returncode:
        return None
    return found


def test_no_page_names_a_project_that_no_index_has() -> None:
    if release.is_published():
        return
    texts = {name: (ROOT / name).read_text(errors="replace") for name in project_files()}
    of_it = {"deploy/release.py", "tests/deploy/test_dist.py"}
    assert not [
        n for n, text in texts.items() if n not in of_it and release.ON_AN_INDEX.search(text)
    ]


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("pip install relevanced", True),
        ("pip install 'relevanced[plot]'", True),
        ("pipx install --quiet relevanced", True),
        ("pip install ./dist/relevanced-0.1.0-py3-none-any.whl", False),
        ("pip install relevanced-0.1.0-py3-none-any.whl", False),
        ("pipx install .", False),
    ],
)
def test_bare_name_is_found(text: str, names: bool) -> None:
    assert bool(release.ON_AN_INDEX.search(text)) == names


def test_way_to_an_extra_names_this_interpreter_and_the_packages() -> None:
    (package,) = packages_of("plot")
    assert package.startswith("matplotlib")
    assert lacking("plot").endswith(f"lacks: {sys.executable} -m pip install '{package}'")


def test_version_stands_in_one_place_and_its_copies_agree() -> None:
    chart = yaml.safe_load((ROOT / "deploy/kubernetes/relevanced/Chart.yaml").read_text())
    sbom = json.loads((ROOT / "deploy/sbom.cdx.json").read_text())
    heading, _ = release.notes((ROOT / "CHANGELOG.md").read_text())
    copies = {chart["version"], chart["appVersion"], sbom["metadata"]["component"]["version"]}
    assert copies == {heading.partition(" ")[0]} == {release.version()}
    assert f"relevanced-{release.version()}-py3" in (ROOT / "README.md").read_text()


def test_release_of_another_tag_is_refused() -> None:
    assert [one.partition(":")[0] for one in release.faults("v9.9.9")][0] == "tag v9.9.9"
