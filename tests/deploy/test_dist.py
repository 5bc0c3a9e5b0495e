"""The source distribution and the wheel hold what they need and nothing else, and no page names a
project that no index has."""

import json
import re
import shlex
import shutil
import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Sequence
from pathlib import Path, PurePosixPath

import pytest
import yaml

from deploy import doctor_examples, release
from relevanced.daemon.extras import lacking, packages_of
from tests.deploy.checkout import copied
from tests.test_layout import product_files, project_files

ROOT = release.ROOT
QUIET = ("install", "--quiet", "--disable-pip-version-check")
X86_64, AARCH64 = b"\x3e\x00", b"\xb7\x00"


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What `make dist` makes of the files as they are now, committed there."""
    source = copied(tmp_path_factory.mktemp("source"))
    run(["git", "init", "--quiet"], source)
    run(["git", "add", "."], source)
    names = ["-c", "user.name=t", "-c", "user.email=t@localhost"]
    run(["git", *names, "commit", "--quiet", "--message=all"], source)
    run(["make", "--silent", "dist", f"PYTHON={sys.executable}"], source)
    return source / "dist"


def run(command: Sequence[str | Path], folder: Path) -> str:
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


@pytest.fixture(scope="module", params=[11, 13, 14])
def fresh(
    request: pytest.FixtureRequest, built: Path, tmp_path_factory: pytest.TempPathFactory
) -> Path:
    """A new virtual environment, of the oldest Python and of the newest, that has the built wheel
    and no extra."""
    python = interpreter(request.param)
    if python is None:
        pytest.skip(f"no Python 3.{request.param}")
    folder = tmp_path_factory.mktemp(f"fresh-{request.param}")
    (wheel,) = built.glob("*.whl")
    run([python, "-m", "venv", folder / "venv"], folder)
    run([folder / "venv/bin/pip", *QUIET, wheel], folder)
    return folder


@pytest.fixture
def outside(fresh: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder outside of the checkout, where `relevanced` is that of the environment and nobody
    may write to the home."""
    monkeypatch.setenv("PATH", f"{fresh}/venv/bin:/usr/bin:/bin")
    monkeypatch.setenv("HOME", "/proc/nobody")
    for name in ("PYTHONPATH", "VIRTUAL_ENV", "XDG_CACHE_HOME", "XDG_CONFIG_HOME"):
        monkeypatch.delenv(name, raising=False)
    return tmp_path


def test_wheel_scores_and_explains_what_the_guide_shows(outside: Path) -> None:
    assert release.version() in run(["relevanced", "--version"], outside)
    (events,) = re.findall(r"```json\n(.+?)```", (ROOT / "README.md").read_text(), re.DOTALL)
    (outside / "searches.jsonl").write_text(events)
    assert "2 impressions: accepted 2" in run(["relevanced", "replay", "searches.jsonl"], outside)
    page = (ROOT / "deploy/guide/replay-and-eval.md").read_text()
    page = page[page.index("`relevanced eval QRELS RUN…`") :]
    qrels, *runs, shown = re.findall(r"```text\n(.+?)```", page, re.DOTALL)[:4]
    for name, text in zip(["qrels.txt", "a.txt", "b.txt"], [qrels, *runs], strict=True):
        (outside / name).write_text(text)
    (command,) = re.findall(r"^    (relevanced eval qrels.txt .+)$", page, re.MULTILINE)
    assert run(shlex.split(command), outside).startswith(shown.partition("\n\n")[0])
    *recorded, looked = doctor_examples.SHOWN.commands
    for command in recorded:
        run(shlex.split(command), outside)
    assert doctor_examples.PROPOSAL in run(shlex.split(looked), outside)


def test_wheel_has_the_library_of_the_guide(outside: Path) -> None:
    run(["python", "-m", "doctest", ROOT / "deploy/guide/library.md"], outside)


def test_demo_of_the_wheel_says_what_it_lacks_and_runs_with_it(outside: Path) -> None:
    demo = ["relevanced", "demo", "--port", "0", "--duration", "2s"]
    refused = subprocess.run(demo, cwd=outside, capture_output=True, text=True, timeout=120)
    assert (refused.returncode, refused.stdout) == (1, "")
    said, _, way_out = refused.stderr.rstrip("\n").partition(" lacks: ")
    assert said == 'Error: needs the extra "demo", which this installation'
    run(shlex.split(way_out), outside)
    assert "the web page: how good search is now" in run(demo, outside)


def test_environment_of_another_machine_is_said(fresh: Path, outside: Path) -> None:
    """One whose compiled modules are for another processor: here numpy's first."""
    (module,) = fresh.glob("venv/lib/python3*/site-packages/numpy/_core/_multiarray_umath.*.so")
    program = module.read_bytes()
    processors = program[18:20]
    assert processors in (X86_64, AARCH64), "the field e_machine of ELF"
    module.unlink()
    module.write_bytes(program[:18] + (X86_64 + AARCH64).replace(processors, b"") + program[20:])
    try:
        refused = subprocess.run(
            ["relevanced", "run"], cwd=outside, capture_output=True, text=True, timeout=120
        )
    finally:
        module.write_bytes(program)
    assert (refused.returncode, refused.stdout) == (1, "")
    (line,) = refused.stderr.splitlines()
    assert line.startswith(f"Error: cannot load a module: {module}: ")
    assert line.endswith(": make it again here") and f"{fresh}/venv is not whole" in line


@pytest.fixture
def older() -> str:
    python = interpreter(10)
    if python is None:
        pytest.skip("no Python 3.10")
    return python


def test_older_python_refuses_the_wheel(built: Path, older: str) -> None:
    (wheel,) = built.glob("*.whl")
    pip = [sys.executable, "-m", "pip", f"--python={older}", *QUIET, "--dry-run", wheel]
    done = subprocess.run(pip, capture_output=True, text=True, timeout=120)
    assert done.returncode == 1
    assert re.search(r"requires a different Python: 3\.10\.\d+ not in '>=3\.11'", done.stderr)


def test_older_python_makes_no_environment(older: str, tmp_path: Path) -> None:
    shutil.copy(ROOT / "Makefile", tmp_path)
    make = ["make", ".venv/.made", f"PYTHON={older}"]
    done = subprocess.run(make, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 2
    lines = done.stderr.splitlines()
    assert lines[0].startswith(f"relevanced needs Python 3.11 or newer; {older} is: Python 3.10.")
    assert lines[1] == "Name another one: PYTHON=python3.12 make .venv/.made"


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
