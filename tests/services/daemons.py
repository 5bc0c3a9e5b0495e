"""The daemon as its users run it: a process of its own with a configuration file."""

import asyncio
import signal
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from urllib.error import HTTPError
from urllib.request import Request, urlopen

from tests.services import processes

PATIENCE_S = 60.0
MOST_PATIENCE = 4
"""So many times its patience does `until` wait for a daemon that goes on."""


class Daemon:
    """One `relevanced run`. Its log is in `log_path`; `close` ends it whatever it does."""

    def __init__(
        self,
        directory: Path,
        config: str,
        role: str = "all",
        port: int = 0,
        under: Sequence[str] = (),
        script: Sequence[str] = ("-m", "relevanced.daemon"),
    ) -> None:
        """`under`: arguments of Python that make it run the daemon under something else.
        `script`: what stands for the daemon, and its first arguments."""
        self.port = port or processes.free_port()
        name = f"daemon-{self.port}-{len(list(directory.iterdir()))}"
        self.log_path = directory / f"{name}.log"
        path = directory / f"{name}.toml"
        path.write_text(f'{config}\n[http]\nlisten = "127.0.0.1:{self.port}"\n')
        command = [sys.executable, *under, *script, "run", "--config", str(path)]
        self.process = processes.spawn([*command, "--role", role], log=self.log_path)

    def get(self, path: str, accept: str = "*/*") -> bytes:
        """The body that is served at a path."""
        asked = Request(f"http://127.0.0.1:{self.port}{path}", headers={"Accept": accept})
        with urlopen(asked, timeout=10) as answer:
            return bytes(answer.read())

    def readiness(self) -> str:
        """The text of /readyz; "" where nothing listens."""
        try:
            return self.get("/readyz").decode()
        except HTTPError as refusal:
            return bytes(refusal.read()).decode()
        except OSError:
            return ""

    def series(self, name: str) -> float:
        """The value of a series by its name at /metrics, labels included; 0 where there is none."""
        text = self.get("/metrics").decode()
        found = [line for line in text.splitlines() if line.startswith(f"{name} ")]
        return float(found[0].rsplit(" ", 1)[1]) if found else 0.0

    def terminate(self, kind: signal.Signals = signal.SIGTERM) -> int:
        """Send it a signal; returns its exit code."""
        self.process.send_signal(kind)
        return self.process.wait(PATIENCE_S)

    def close(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait(PATIENCE_S)

    def log(self) -> str:
        return self.log_path.read_text()


async def until(
    ready: Callable[[], object], daemon: Daemon | None = None, patience_s: float = 90.0
) -> None:
    """Wait until `ready` gives something true; a server that is not up yet is waited for. Where the
    daemon is given, patience begins anew whenever its log grows, up to `MOST_PATIENCE` times: a
    slow machine is not a stall. A failure shows that log, and how its process ended."""
    began_s = since_s = time.monotonic()
    grown = -1
    while True:
        # Not `wait_for`: its task and the error would refer to each other, and the socket of an
        # HTTPError would stay open until some later test.
        with suppress(OSError):
            async with asyncio.timeout(patience_s):
                if await asyncio.to_thread(ready):
                    return
        now_s = time.monotonic()
        size = daemon.log_path.stat().st_size if daemon else grown
        if size > grown and now_s - began_s < patience_s * (MOST_PATIENCE - 1):
            grown, since_s = size, now_s
        if now_s - since_s > patience_s:
            log = f"{daemon.log()}\nexit code: {daemon.process.poll()}" if daemon else "not given"
            raise AssertionError(f"not within {now_s - began_s:.0f} s; the log:\n{log}")
        await asyncio.sleep(0.05)
