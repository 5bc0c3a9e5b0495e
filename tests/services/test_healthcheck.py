"""`relevanced healthcheck` reports of a running daemon what its probes answer."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.services import processes
from tests.services.certificates import Authority
from tests.services.daemons import PATIENCE_S, Daemon

NO_REDIS = '[redis]\nurl = "redis://127.0.0.1:9"'
WRITES_NOTHING = """
import os, sys
WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT
CHANGES = ("os.mkdir", "os.rename", "os.remove", "os.rmdir", "os.link", "os.symlink", "os.truncate")
def hook(event, arguments):
    if event in CHANGES or event == "open" and arguments[2] & WRITES and arguments[0] != os.devnull:
        print("WRITES", event, arguments, file=sys.stderr)
        os._exit(99)
sys.dont_write_bytecode = True
sys.addaudithook(hook)
from relevanced.daemon.commands.cli import main
main()
"""


def healthcheck(config: Path, *arguments: str) -> tuple[int, str]:
    """Exit code and output."""
    command = [sys.executable, "-m", "relevanced.daemon", "healthcheck", *arguments]
    environment = {**os.environ, "RELEVANCED_CONFIG": str(config)}
    done = subprocess.run(
        command, env=environment, capture_output=True, text=True, timeout=PATIENCE_S, check=False
    )
    return done.returncode, done.stdout + done.stderr


@pytest.fixture
def exporter(tmp_path: Path) -> Iterator[Daemon]:
    """An exporter whose Redis is away."""
    daemon = Daemon(tmp_path, NO_REDIS, role="exporter")
    wait_until_alive(configuration(daemon), daemon.process, daemon.log_path)
    yield daemon
    daemon.close()


def configuration(daemon: Daemon) -> Path:
    return daemon.log_path.with_suffix(".toml")


def wait_until_alive(config: Path, process: subprocess.Popen[bytes], log: Path) -> None:
    processes.wait_until(
        lambda: healthcheck(config)[0] == 0,
        alive=lambda: process.poll() is None,
        log=log.read_text,
        name="daemon",
        patience_s=PATIENCE_S,
    )


def test_health_follows_the_probes(exporter: Daemon) -> None:
    config = configuration(exporter)
    assert healthcheck(config) == (0, '{"alive":true}\n')
    code, said = healthcheck(config, "--ready")
    assert code == 1 and '"ready":false' in said
    exporter.terminate()
    code, said = healthcheck(config)
    assert code == 1 and f"127.0.0.1:{exporter.port}/livez: no answer" in said


def test_health_is_asked_over_tls_too(tmp_path: Path) -> None:
    certificate, key = Authority(tmp_path / "certificates").server("server")
    web = tmp_path / "web.yml"
    web.write_text(f"tls_server_config: {{cert_file: {certificate}, key_file: {key}}}\n")
    port = processes.free_port()
    config = tmp_path / "relevanced.toml"
    config.write_text(f'{NO_REDIS}\n[http]\nlisten = "0.0.0.0:{port}"\nweb_config = "{web}"\n')
    command = [sys.executable, "-m", "relevanced.daemon", "run", "--config", str(config)]
    log = tmp_path / "log"
    process = processes.spawn([*command, "--role", "exporter"], log=log)
    try:
        wait_until_alive(config, process, log)
    finally:
        processes.end(process, signal.SIGTERM, patience_s=PATIENCE_S)


def test_daemon_writes_no_file(tmp_path: Path) -> None:
    """So it runs on a file system that is read-only."""
    config = tmp_path / "relevanced.toml"
    config.write_text(f'{NO_REDIS}\n[http]\nlisten = "127.0.0.1:{processes.free_port()}"\n')
    log = tmp_path / "log"
    process = processes.spawn(
        [sys.executable, "-c", WRITES_NOTHING, "run", "--config", str(config)], log=log
    )
    try:
        wait_until_alive(config, process, log)
        process.send_signal(signal.SIGTERM)
        assert process.wait(PATIENCE_S) == 0, log.read_text()
    finally:
        processes.end(process, signal.SIGKILL, patience_s=PATIENCE_S)
