"""Checks of a worker over HTTP: whether it is ready, and what it serves."""

import asyncio
import json
import time
from collections.abc import Callable
from typing import Final
from urllib.error import HTTPError
from urllib.request import urlopen

from tests.chaos.stage import Slot

ANSWER_S: Final = 10.0
POLL_EVERY_S: Final = 0.2


async def unready(port: int, patience_s: float) -> str | None:
    """None as soon as the process is ready; after `patience_s` the reason why it is not."""
    return await _until_none(lambda: _unready(port), patience_s)


async def dead(slot: Slot, patience_s: float) -> str | None:
    """None as soon as the worker answers, or another fault affects it; after `patience_s` why it
    does not."""

    def check() -> str | None:
        return _dead(slot.port) if slot.running and not slot.frozen else None

    return await _until_none(check, patience_s)


async def wrong_events(port: int, expected: dict[str, int], patience_s: float) -> str | None:
    """None as soon as the process serves these counts of events; after `patience_s` the
    difference."""
    return await _until_none(lambda: _wrong_events(port, expected), patience_s)


async def _until_none(check: Callable[[], str | None], patience_s: float) -> str | None:
    deadline_s = time.monotonic() + patience_s
    while (problem := await asyncio.to_thread(check)) is not None and time.monotonic() < deadline_s:
        await asyncio.sleep(POLL_EVERY_S)
    return problem


def _unready(port: int) -> str | None:
    try:
        with urlopen(f"http://127.0.0.1:{port}/readyz", timeout=ANSWER_S):
            return None
    except HTTPError as error:
        with error:
            conditions = json.load(error)["conditions"]
        return "; ".join(f"{c['name']}: {c['detail']}" for c in conditions if not c["ok"])
    except OSError as error:
        return repr(error)


def _dead(port: int) -> str | None:
    try:
        with urlopen(f"http://127.0.0.1:{port}/livez", timeout=ANSWER_S):
            return None
    except OSError as error:
        return repr(error)


def _wrong_events(port: int, expected: dict[str, int]) -> str | None:
    try:
        with urlopen(f"http://127.0.0.1:{port}/api/v1/scores", timeout=ANSWER_S) as answer:
            served = json.load(answer)["events"]
    except OSError as error:  # including HTTPError
        return repr(error)
    found = {kind: served[kind] for kind in expected}
    return None if found == expected else f"{found}, must be {expected}"
