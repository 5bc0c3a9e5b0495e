"""The bound of open files: raised at the start as far as the system allows."""

import resource
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from relevanced.daemon.commands.process_limits import raised_bound

CONFIG = '[http]\nlisten = "127.0.0.1:0"\n[redis]\nurl = "redis://127.0.0.1:1/0"\n'
PATIENCE_S = 60


@pytest.fixture
def started(tmp_path: Path) -> Iterator["subprocess.Popen[str]"]:
    """A daemon whose user may open 512 files, and its shell only 128."""
    path = tmp_path / "config.toml"
    path.write_text(CONFIG)
    command = [sys.executable, "-m", "relevanced.daemon", "run", "--config", str(path)]
    with subprocess.Popen(
        [*command, "--role", "exporter"],
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (128, 512)),
    ) as process:
        yield process
        process.terminate()
        process.wait(PATIENCE_S)


def test_a_daemon_may_open_as_many_files_as_its_user(started: "subprocess.Popen[str]") -> None:
    assert started.stderr is not None
    for line in started.stderr:
        if "serving" in line:
            break
    assert resource.prlimit(started.pid, resource.RLIMIT_NOFILE) == (512, 512)


@pytest.mark.parametrize(
    ("soft", "hard", "expected"),
    [(64, 256, 256), (64, 64, 64), (64, 1 << 30, 65_536), (100_000, 1 << 30, 100_000)],
)
def test_the_bound_is_raised_but_never_lowered(soft: int, hard: int, expected: int) -> None:
    assert raised_bound(soft, hard) == expected
    assert raised_bound(64, resource.RLIM_INFINITY) == 65_536
    assert raised_bound(resource.RLIM_INFINITY, resource.RLIM_INFINITY) == resource.RLIM_INFINITY
