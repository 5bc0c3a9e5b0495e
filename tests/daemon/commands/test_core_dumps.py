"""Nothing of a daemon's passwords leaves it by a core dump, or by what `ps` shows."""

import os
import resource
import subprocess
import sys
from pathlib import Path

import pytest

SECRET = "ruby-opal"
CONFIG = """
[http]
listen = "127.0.0.1:0"
[redis]
url = "redis://127.0.0.1:1/0"
"""


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_a_daemon_dumps_no_core_and_ps_shows_no_secret(tmp_path: Path) -> None:
    path = tmp_path / "config.toml"
    path.write_text(CONFIG)
    command = [sys.executable, "-m", "relevanced.daemon", "run", "--config", str(path)]
    hard = resource.getrlimit(resource.RLIMIT_CORE)[1]
    with subprocess.Popen(
        [*command, "--role", "exporter"],
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "RELEVANCED_REDIS__PASSWORD": SECRET},
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_CORE, (hard, hard)),
    ) as process:
        assert process.stderr is not None
        assert any("serving" in line for line in process.stderr)
        assert resource.prlimit(process.pid, resource.RLIMIT_CORE) == (0, hard)
        shown = [Path(f"/proc/{process.pid}/{name}") for name in ("cmdline", "comm", "status")]
        assert not [file for file in shown if SECRET in file.read_text()]
        environment = os.stat(f"/proc/{process.pid}/environ")
        assert environment.st_mode & 0o077 == 0, "others cannot read variables either"
        process.terminate()
