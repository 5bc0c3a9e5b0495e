"""What a worker says of itself over HTTP."""

import asyncio
import json
import time
from collections.abc import Callable
from typing import Final
from urllib.error import HTTPError
from urllib.request import urlopen

ANSWER_S: Final = 10.0
LOOK_EVERY_S: Final = 0.2


async def unready(port: int, patience_s: float) -> str | None:
    """None as soon as the process says that it is ready; else, after a while, what it says."""
    return await _until_none(lambda: _unready(port), patience_s)


async def events_missing(port: int, wanted: dict[str, int], patience_s: float) -> str | None:
    """None as soon as the process serves scores over so many events; else what it serves."""
    return await _until_none(lambda: _events_missing(port, wanted), patience_s)


async def _until_none(look: Callable[[], str | None], patience_s: float) -> str | None:
    deadline_s = time.monotonic() + patience_s
    while (said := await asyncio.to_thread(look)) is not None and time.monotonic() < deadline_s:
        await asyncio.sleep(LOOK_EVERY_S)
    return said


def _unready(port: int) -> str | None:
    try:
        with urlopen(f"http://127.0.0.1:{port}/readyz", timeout=ANSWER_S):
            return None
    except HTTPError as error:
        with error:
            conditions = json.load(error)["conditions"]
        return "; ".join(f"{one['name']}: {one['detail']}" for one in conditions if not one["ok"])
    except OSError as error:
        return repr(error)


def _events_missing(port: int, wanted: dict[str, int]) -> str | None:
    try:
        with urlopen(f"http://127.0.0.1:{port}/api/v1/scores", timeout=ANSWER_S) as answer:
            served = json.load(answer)["events"]
    except OSError as error:  # HTTPError is one
        return repr(error)
    found = {kind: served[kind] for kind in wanted}
    return None if found == wanted else f"{found}, must be {wanted}"
