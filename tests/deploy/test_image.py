"""The image installs as the guide does, contains only what it needs, and runs unprivileged."""

import json
import shutil
import subprocess
import sys
import zipfile
from fnmatch import fnmatchcase
from pathlib import Path

from tests.deploy.chart import DEPLOY
from tests.deploy.commands import parsed

ROOT = DEPLOY.parent
Stage = list[tuple[str, str]]


def stages() -> list[Stage]:
    """The (instruction, arguments) of each stage, starting at its FROM."""
    text = (DEPLOY / "Dockerfile").read_text().replace("\\\n", " ")
    lines = [line.split(maxsplit=1) for line in text.splitlines() if line and line[0] != "#"]
    found: list[Stage] = []
    for instruction, rest in lines:
        if instruction == "FROM":
            found.append([])
        found[-1].append((instruction, rest))
    return found


def of(instruction: str, stage: Stage) -> list[str]:
    return [rest for name, rest in stage if name == instruction]


def copied() -> list[str]:
    """The paths that the first stage copies from the repository."""
    return [source for rest in of("COPY", stages()[0]) for source in rest.split()[:-1]]


def test_image_is_installed_as_the_guide_does() -> None:
    """As `make` does: what the lock pins, checked by its hashes, in a virtual environment."""
    steps = of("RUN", stages()[0])
    makefile = (ROOT / "Makefile").read_text()
    hashed = "--require-hashes --no-deps --requirement"
    for words in ("-m venv", "deploy/locked.py requirements", hashed):
        assert words in makefile and words in (DEPLOY / "guide" / "install.md").read_text()
        assert any(words in step for step in steps)
    packages, itself = (step for step in steps if "pip install" in step)
    assert hashed in packages and itself.endswith("--no-deps .")


def test_last_stage_only_copies_the_environment() -> None:
    last = stages()[-1]
    assert of("COPY", last) == ["--from=build /opt/relevanced /opt/relevanced"]
    assert not of("RUN", last) and not of("ADD", last)
    assert [base.split()[0] for stage in stages() for base in of("FROM", stage)] == [
        "python:3.11-slim"
    ] * 2


def test_image_runs_as_a_user_without_name_or_rights() -> None:
    (user,) = of("USER", stages()[-1])
    assert all(int(number) >= 1000 for number in user.split(":"))


def test_image_runs_existing_commands() -> None:
    last = stages()[-1]
    (entrypoint,), (command,) = of("ENTRYPOINT", last), of("CMD", last)
    (check,) = of("HEALTHCHECK", last)
    assert json.loads(entrypoint) == ["relevanced"]
    assert parsed(json.loads(command)).info_name == "run"
    name, *words = json.loads(check.partition("CMD ")[2])
    assert name == "relevanced" and parsed(words).info_name == "healthcheck"


def test_build_context_contains_only_the_copied_paths() -> None:
    lines = (DEPLOY / "Dockerfile.dockerignore").read_text().splitlines()
    rules = [line for line in lines if line and not line.startswith("#")]
    assert rules[0] == "*"
    assert sorted(rule[1:] for rule in rules if rule.startswith("!")) == sorted(copied())


def test_copied_files_build_and_run(tmp_path: Path) -> None:
    """The wheel builds from the copied paths alone, and the program in it runs."""
    source, out = tmp_path / "source", tmp_path / "out"
    source.mkdir()
    for name in copied():
        path = ROOT / name
        if path.is_dir():
            shutil.copytree(path, source / name, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            (source / name).parent.mkdir(exist_ok=True)
            shutil.copy(path, source / name)
    build = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir"]
    subprocess.run([*build, str(out), "."], cwd=source, check=True, timeout=120)
    (wheel,) = out.glob("relevanced-*.whl")
    with zipfile.ZipFile(wheel) as archive:
        assert not [name for name in archive.namelist() if fnmatchcase(name, "*.pyc")]
        archive.extractall(tmp_path / "installed")
    code = f"import sys; sys.path.insert(0, {str(tmp_path / 'installed')!r}); import relevanced\n"
    code += "relevanced.__path__ = [sys.path[0] + '/relevanced']\n"
    code += (
        "from relevanced.daemon.commands.cli import cli\n"
        "import relevanced.daemon as d; print(d.__file__)\n"
    )
    code += f"cli(['check-config', {str(DEPLOY / 'relevanced.toml')!r}])"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=tmp_path)
    assert ran.returncode == 0, ran.stderr
    assert str(tmp_path) in ran.stdout.splitlines()[0] and "namespace in Redis" in ran.stdout
