"""Stalls of the event loop: measured, and the longest of a minute shown to every scrape."""

import asyncio
import time

from relevanced.daemon.telemetry import LongestStall, Telemetry, watch_stalls

SERIES = b"relevanced_event_loop_stall_seconds "


def shown_s(telemetry: Telemetry) -> float:
    """The gauge as a scrape sees it."""
    [line] = [line for line in telemetry.render(False).splitlines() if line.startswith(SERIES)]
    return float(line.removeprefix(SERIES))


async def test_a_stall_is_shown_to_every_scrape() -> None:
    telemetry = Telemetry("1")
    watch = asyncio.create_task(watch_stalls(telemetry.note_stall, 0.001))
    await asyncio.sleep(0)
    time.sleep(0.05)
    await asyncio.sleep(0.002)
    watch.cancel()
    for _ in range(2):
        assert shown_s(telemetry) >= 0.04


def test_the_longest_stall_counts_for_a_minute() -> None:
    longest = LongestStall()
    for now_s, stall_s in [(0.0, 0.1), (10.0, 0.5), (20.0, 0.2), (21.0, 0.01)]:
        longest.note(now_s, stall_s)
    assert [longest.seconds(now_s) for now_s in (21.0, 69.9, 70.0, 80.0, 81.0)] == [
        *(0.5, 0.5, 0.2, 0.01, 0.0)
    ]
