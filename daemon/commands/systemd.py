"""What the process tells systemd, where that started it with `Type=notify` (sd_notify(3)).

READY=1 once the process is ready as `/readyz` says, STATUS= with what it waits for until then,
WATCHDOG=1 from the event loop while that runs, STOPPING=1 when it ends.
"""

import asyncio
import os
import socket
from collections.abc import Callable, Mapping
from typing import Final

from ..exporter import Published

EVERY_S: Final = 1.0


def notify(text: str, environment: Mapping[str, str] = os.environ) -> None:
    """Send systemd a message; without NOTIFY_SOCKET, and where nobody takes it, do nothing."""
    address = environment.get("NOTIFY_SOCKET", "")
    if not address:
        return
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK) as door:
        try:
            door.sendto(text.encode(), f"\0{address[1:]}" if address[0] == "@" else address)
        except OSError:  # The next one comes in a second.
            return


async def keep_informed(published: Callable[[], Published], every_s: float = EVERY_S) -> None:
    """Tell systemd the state of the process until cancelled; `published` says what that is."""
    if "NOTIFY_SOCKET" not in os.environ:
        return
    was_ready = False
    try:
        while True:
            now = published()
            waits = "; ".join(one.detail or one.name for one in now.conditions if not one.ok)
            was_ready = was_ready or now.ready
            ready = "READY=1\n" if was_ready else ""
            notify(f"{ready}WATCHDOG=1\nSTATUS={waits.replace(chr(10), ' ') or 'ready'}")
            await asyncio.sleep(every_s)
    finally:
        notify("STOPPING=1")
