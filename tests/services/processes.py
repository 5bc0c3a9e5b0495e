"""What every test server needs: ports, a process that cannot outlive the tests, a log."""

import random
import shutil
import signal
import socket
import subprocess
import time
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final

PORTS: Final = range(20_000, 32_000)
"""Below the range of outgoing connections, so that a stopped server finds its port free again."""

_given: Final = deque[int](maxlen=1_000)
_launcher = ThreadPoolExecutor(max_workers=1, thread_name_prefix="launcher")
"""The parent-death signal follows the *thread* that started a process: this one stays."""


class StartError(Exception):
    """A server did not come up; the message holds the end of its log."""


def free_port() -> int:
    """A TCP port of 127.0.0.1 that nobody listens on, and that was not given to anyone lately."""
    for port in random.SystemRandom().sample(PORTS, 100):
        if port in _given:
            continue  # a cluster asks for many before the first of its servers listens
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            _given.append(port)
            return port
    raise StartError(f"no free port among 100 tried of {PORTS}")


def spawn(command: Sequence[str], *, log: Path) -> subprocess.Popen[bytes]:
    """Start a server that logs to `log`; on Linux it dies with the tests, even at SIGKILL."""
    guard = ["setpriv", "--pdeathsig", "KILL", "--"] if shutil.which("setpriv") else []
    with log.open("ab") as output:
        return _launcher.submit(
            subprocess.Popen,
            [*guard, *command],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,  # Ctrl-C is for pytest, which then stops its servers in order
        ).result()


def end(process: subprocess.Popen[bytes], kind: signal.Signals, *, patience_s: float) -> None:
    """Send the signal and wait; who does not leave in time is killed. The frozen are woken."""
    if process.poll() is None:
        process.send_signal(kind)
        process.send_signal(signal.SIGCONT)
    try:
        process.wait(patience_s)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def wait_until(
    ready: Callable[[], bool],
    *,
    alive: Callable[[], bool],
    log: Callable[[], str],
    name: str,
    patience_s: float,
) -> None:
    """Return when `ready`; `StartError`, with the end of the log, if it died or took too long."""
    deadline = time.monotonic() + patience_s
    while not ready():
        if not alive():
            raise StartError(f"{name} ended while starting. Its log:\n{tail(log())}")
        if time.monotonic() > deadline:
            raise StartError(f"{name} is not ready after {patience_s} s. Its log:\n{tail(log())}")
        time.sleep(0.02)


def tail(text: str, lines: int = 60) -> str:
    return "\n".join(text.splitlines()[-lines:])
