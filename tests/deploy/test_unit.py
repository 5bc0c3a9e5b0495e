"""The systemd unit is valid and starts an existing command with a valid configuration."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from relevanced.daemon.commands.cli import USAGE_EXIT
from relevanced.daemon.config import load
from relevanced.daemon.worker import memory
from tests.deploy.chart import DEPLOY
from tests.deploy.commands import parsed

UNIT = DEPLOY / "relevanced.service"
EXAMPLE = DEPLOY / "relevanced.toml"


def values(key: str) -> list[str]:
    """The values that the unit gives this key."""
    pairs = [line.partition("=") for line in UNIT.read_text().splitlines()]
    return [value for name, _, value in pairs if name == key]


def test_unit_starts_a_command_of_the_program() -> None:
    (command,) = values("ExecStart")
    program, *words = command.split()
    assert program == "/opt/relevanced/bin/relevanced"
    words[words.index("--config") + 1] = str(EXAMPLE)
    assert parsed(words).info_name == "run"


def test_unit_does_not_restart_after_a_configuration_error() -> None:
    assert values("RestartPreventExitStatus") == [str(USAGE_EXIT)]


def test_unit_bounds_its_memory_and_a_worker_sees_the_bound(tmp_path: Path) -> None:
    """A slice around the unit has no limit of its own."""
    (limit,) = values("MemoryMax")
    assert limit == "2G"
    own, root = tmp_path / "cgroup", tmp_path / "sys"
    own.write_text("0::/system.slice/relevanced.service\n")
    (root / "system.slice/relevanced.service").mkdir(parents=True)
    (root / "system.slice/memory.max").write_text("max\n")
    (root / "system.slice/relevanced.service/memory.max").write_text(f"{2 << 30}\n")
    files = memory.unit_files(own, root)
    assert files == [
        root / "system.slice/relevanced.service/memory.max",
        root / "system.slice/memory.max",
    ]
    assert memory.container_bytes(files) == 2 << 30
    assert memory.unit_files(tmp_path / "none", root) == []


def test_example_configuration_is_valid() -> None:
    assert load(EXAMPLE.read_text(), {}, EXAMPLE.name).kafka.topics


def test_systemd_accepts_the_unit(tmp_path: Path) -> None:
    if shutil.which("systemd-analyze") is None:
        pytest.skip("no systemd-analyze: apt-get install systemd")
    unit = tmp_path / UNIT.name
    unit.write_text(UNIT.read_text().replace("/opt/relevanced/bin/relevanced", sys.executable))
    done = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", unit], capture_output=True, text=True
    )
    assert (done.returncode, done.stderr) == (0, "")
