"""The systemd unit is valid and starts an existing command with a valid configuration."""

import os
import re
import shutil
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from relevanced.daemon.commands.cli import USAGE_EXIT
from relevanced.daemon.config import load
from relevanced.daemon.worker import process_memory
from tests.deploy.chart import DEPLOY
from tests.deploy.checkout import copied
from tests.deploy.commands import parsed
from tests.services import processes

UNIT = DEPLOY / "relevanced.service"
EXAMPLE = DEPLOY / "relevanced.toml"
PLACES = re.compile(r"(?<![\w/.])/(?=opt/|etc/|tmp/)")
"""Where a path of the machine begins."""


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
    files = process_memory.unit_files(own, root)
    assert files == [
        root / "system.slice/relevanced.service/memory.max",
        root / "system.slice/memory.max",
    ]
    assert process_memory.container_bytes(files) == 2 << 30
    assert process_memory.unit_files(tmp_path / "none", root) == []


def test_example_configuration_is_valid() -> None:
    assert load(EXAMPLE.read_text(), {}, EXAMPLE.name).kafka.topics


@pytest.fixture(scope="module")
def machine(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The root of a machine on which the guide was followed word by word, up to `systemctl`. The
    configuration that it installs is the example."""
    root, checkout = tmp_path_factory.mktemp("machine"), copied(tmp_path_factory.mktemp("checkout"))
    for folder in ("etc/systemd/system", "tmp", "bin"):
        (root / folder).mkdir(parents=True)
    page = (DEPLOY / "guide/install.md").read_text().partition("## On a plain machine\n")[2]
    *steps, last = re.findall(r"^    (\S.+)$", page.partition("\n## ")[0], re.MULTILINE)
    assert last.startswith("systemctl enable --now relevanced ")
    (root / "bin/python3").symlink_to(sys.executable)
    variables = os.environ | {"PATH": f"{root}/bin:{os.environ['PATH']}"}
    for step in steps:
        placed = PLACES.sub(f"{root}/", step)
        done = subprocess.run(
            placed, shell=True, cwd=checkout, env=variables, capture_output=True, text=True
        )
        assert done.returncode == 0, f"{step}\n{done.stdout}{done.stderr}"
    unit = root / "etc/systemd/system/relevanced.service"
    assert unit.read_text() == UNIT.read_text()
    unit.write_text(PLACES.sub(f"{root}/", unit.read_text()))
    return root


def test_systemd_accepts_the_unit_of_the_guide(machine: Path) -> None:
    if shutil.which("systemd-analyze") is None:
        pytest.skip("no systemd-analyze: apt-get install systemd")
    unit = machine / "etc/systemd/system/relevanced.service"
    done = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", unit], capture_output=True, text=True
    )
    assert (done.returncode, done.stderr) == (0, "")


async def test_program_of_the_guide_tells_systemd_what_it_waits_for_and_that_it_ends(
    machine: Path, tmp_path: Path
) -> None:
    unit = (machine / "etc/systemd/system/relevanced.service").read_text()
    (command,) = re.findall(r"^ExecStart=(.+)$", unit, re.MULTILINE)
    away = {"REDIS__URL": "redis://127.0.0.1:1", "KAFKA__BOOTSTRAP_SERVERS": "127.0.0.1:1"}
    away["HTTP__LISTEN"] = f"127.0.0.1:{processes.free_port()}"
    variables = {f"RELEVANCED_{name}": value for name, value in away.items()}
    door = f"{tmp_path}/notify"
    said: list[str] = []
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as systemd:
        systemd.bind(door)
        systemd.settimeout(120)
        with subprocess.Popen(
            command.split(),
            env=variables | {"NOTIFY_SOCKET": door, "WATCHDOG_USEC": "1000000"},
            cwd="/",
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        ) as program:
            while "Redis" not in "".join(said):
                said += systemd.recv(4096).decode().splitlines()
            program.terminate()
            while "STOPPING=1" not in said:
                said += systemd.recv(4096).decode().splitlines()
            assert program.wait(60) == 0
    assert "WATCHDOG=1" in said and "READY=1" not in said
