"""systemd is told when the process is ready, while its event loop runs, and when it ends."""

import asyncio
import os
import socket
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest

from relevanced.daemon.commands.systemd import keep_informed, notify
from relevanced.daemon.exporter import Condition, Published

READY = Published(conditions=(Condition("caught_up", True),))


@pytest.fixture(params=["path", "abstract"])
def systemd(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[socket.socket]:
    """The socket where systemd would listen."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as door:
        name = str(tmp_path / "s") if request.param == "path" else f"@relevanced-{os.getpid()}"
        door.bind(name.replace("@", "\0", 1))
        door.settimeout(30)
        monkeypatch.setenv("NOTIFY_SOCKET", name)
        yield door


async def test_ready_comes_once_caught_up_and_the_loop_feeds_the_watchdog(
    systemd: socket.socket,
) -> None:
    def waiting(detail: str) -> Published:
        return replace(READY, conditions=(Condition("caught_up", False, detail),))

    states = [waiting("is reading\nthe past"), READY, waiting("Redis lost the state")]
    telling = asyncio.create_task(keep_informed(lambda: states[0], every_s=0.01))

    async def message() -> list[str]:
        return (await asyncio.to_thread(systemd.recv, 4096)).decode().split("\n")

    async def next_after(state: str) -> list[str]:
        while state in (said := await message()):
            pass
        return said

    assert await message() == ["WATCHDOG=1", "STATUS=is reading the past"]
    states.pop(0)
    said = await next_after("STATUS=is reading the past")
    assert said == ["READY=1", "WATCHDOG=1", "STATUS=ready"]
    states.pop(0)  # ready stays said: systemd knows no way back
    assert (await next_after("STATUS=ready"))[1:] == ["WATCHDOG=1", "STATUS=Redis lost the state"]
    telling.cancel()
    with suppress(asyncio.CancelledError):
        await telling
    assert await next_after("WATCHDOG=1") == ["STOPPING=1"]


async def test_without_systemd_nothing_is_told(tmp_path: Path) -> None:
    await keep_informed(lambda: READY)
    notify("READY=1", {"NOTIFY_SOCKET": str(tmp_path / "nobody")})
