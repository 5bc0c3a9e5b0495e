"""The image installs as the guide does, contains only what it needs, and runs unprivileged."""

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from urllib.request import urlopen

import pytest
import yaml

from deploy import release
from tests.deploy.chart import DEPLOY
from tests.deploy.commands import parsed
from tests.services import processes
from tests.services.daemons import until

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
        if not found:
            continue  # an ARG before the first stage
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
    assert [base.split()[0] for stage in stages() for base in of("FROM", stage)] == ["${BASE}"] * 2


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


@pytest.fixture(scope="module")
def environment() -> Iterator[Path]:
    """What the steps of the first stage leave, run on its copied paths alone, where any user may
    read it."""
    with tempfile.TemporaryDirectory(prefix="relevanced-image-") as place:
        folder = Path(place)
        folder.chmod(0o755)
        source = folder / "source"
        for path in copied():
            (source / path).parent.mkdir(exist_ok=True)
            if (ROOT / path).is_dir():
                kept_out = shutil.ignore_patterns("__pycache__")
                shutil.copytree(ROOT / path, source / path, ignore=kept_out)
            else:
                shutil.copy(ROOT / path, source / path)
        variables = os.environ | {"PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
        for name, _, value in (rest.partition("=") for rest in of("ARG", stages()[0])):
            variables[name] = value.strip('"')
        for step in of("RUN", stages()[0]):
            step = step.replace("/opt/relevanced", f"{folder}/relevanced")
            done = subprocess.run(
                ["sh", "-c", step], cwd=source, env=variables, capture_output=True, text=True
            )
            assert done.returncode == 0, f"{step}\n{done.stdout}{done.stderr}"
        shutil.rmtree(source)
        yield folder / "relevanced"


def test_steps_leave_the_program_and_no_installer(environment: Path) -> None:
    def ran(*command: str) -> str:
        path = environment / "bin" / command[0]
        done = subprocess.run([path, *command[1:]], capture_output=True, text=True, cwd="/")
        return done.stdout + done.stderr

    assert release.version() in ran("relevanced", "--version")
    checked = ran("relevanced", "check-config", str(DEPLOY / "relevanced.toml"))
    assert "namespace in Redis" in checked
    for extra in ("fastavro", "google.protobuf"):
        assert ran("python", "-c", f"import {extra}") == ""
    assert "No module named pip" in ran("python", "-m", "pip")
    lacking = "from relevanced.daemon.extras import lacking; print(lacking('aws'))"
    assert ran("python", "-c", lacking).endswith(
        f"{environment} was made, which has no pip; an image by --build-arg"
        ' EXTRAS="avro protobuf aws"\n'
    )


AS_IN_A_CONTAINER = """
set -e
base="$1" environment="$2" config="$3" user="$4"
case "$base" in
  "$HOME"/*)  # which nobody else may enter: it shall be as if it lay elsewhere
    mount --bind "$base" /mnt
    mount -t tmpfs -o mode=755 none "$HOME"
    mkdir -p "$base"
    mount --bind /mnt "$base" ;;
esac
for at in / /tmp "$HOME"; do mount -o remount,bind,ro "$at" 2>/dev/null || true; done
if touch "$environment/written" 2>/dev/null; then echo "the root is not read-only"; exit 1; fi
cd /
exec setpriv --reuid="${user%:*}" --regid="${user#*:}" --clear-groups --no-new-privs \
  env -i PATH="$environment/bin" PYTHONDONTWRITEBYTECODE=1 PYTHONUNBUFFERED=1 \
  relevanced run --config "$config"
"""
"""Starts the program as the container's first process: the user of the image, who has neither name
nor home, on a root file system that is read-only."""
NAMESPACES = ("unshare", "--pid", "--fork", "--kill-child", "--mount", "--mount-proc")


@pytest.mark.parametrize("kind", [signal.SIGTERM, signal.SIGINT])
async def test_first_process_ends_at_a_signal(
    kind: signal.Signals, environment: Path, tmp_path: Path
) -> None:
    """Of the first process the kernel keeps away each signal that it does not handle: this is what
    an init before it would be for."""
    if subprocess.run([*NAMESPACES, "true"], capture_output=True).returncode:
        pytest.skip("no namespaces of processes and mounts")
    config = environment.parent / f"{kind.name}.toml"
    text = '[kafka]\nbootstrap_servers = ["127.0.0.1:1"]\ntopics = ["events"]\n'
    port = processes.free_port()
    text += f'[redis]\nurl = "redis://127.0.0.1:1"\n[http]\nlisten = "127.0.0.1:{port}"\n'
    config.write_text(text)
    (user,) = of("USER", stages()[-1])
    arguments = [sys.base_prefix, str(environment), str(config), user]
    command = [*NAMESPACES, "sh", "-c", AS_IN_A_CONTAINER, "sh", *arguments]
    log = tmp_path / "log"
    outer = processes.spawn(command, log=log)
    try:
        await until(lambda: outer.poll() is not None or alive(port))
        assert outer.poll() is None, log.read_text()
        (first,) = Path(f"/proc/{outer.pid}/task/{outer.pid}/children").read_text().split()
        status = Path(f"/proc/{first}/status").read_text()
        assert status.partition("NSpid:")[2].split()[:2] == [first, "1"]
        assert status.partition("Uid:")[2].split()[0] == user.partition(":")[0]
        os.kill(int(first), kind)
        assert outer.wait(60) == 0, log.read_text()
    finally:
        processes.end(outer, signal.SIGKILL, patience_s=60)


def alive(port: int) -> bool:
    with urlopen(f"http://127.0.0.1:{port}/livez", timeout=10) as answer:
        return bool(answer.status == 200)


def test_a_release_names_its_base_by_digest(tmp_path: Path) -> None:
    """The digest that the tag of the Dockerfile has then: one of all architectures."""
    first = (DEPLOY / "Dockerfile").read_text().partition("\nARG BASE=")[2].split()[0]
    workflow = yaml.safe_load((ROOT / ".github/workflows/release.yml").read_text())
    steps = workflow["jobs"]["image"]["steps"]
    (naming,) = (step for step in steps if step.get("id") == "base")
    (building,) = (step for step in steps if "build-push-action" in step.get("uses", ""))
    assert building["with"]["build-args"] == "BASE=${{ steps.base.outputs.base }}"
    docker, output = tmp_path / "docker", tmp_path / "output"
    digest = f"sha256:{'1' * 64}"
    docker.write_text(f"#!/bin/sh\nprintf %s '{digest}'; echo \"$@\" > {tmp_path}/asked\n")
    docker.chmod(0o755)
    variables = {"PATH": f"{tmp_path}:{os.environ['PATH']}", "GITHUB_OUTPUT": str(output)}
    subprocess.run(["bash", "-e", "-c", naming["run"]], cwd=ROOT, env=variables, check=True)
    assert output.read_text() == f"base={first}@{digest}\n"
    assert (tmp_path / "asked").read_text().startswith(f"buildx imagetools inspect {first} ")
