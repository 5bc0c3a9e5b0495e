"""The first two hours of an installation: from lanes to what the alerts compare."""

from dataclasses import dataclass

import pytest

from relevanced.daemon.exporter import Detection, Publisher
from tests.daemon.exporter.two_countries import MINUTE_MS, NOW_MS, PLAN, Site

STEP_MS = 5 * MINUTE_MS
INSTANTS = 25
BROKEN = 13
"""Of the instants, 5 min apart, that at which the scores fell."""
DROP = 0.145
BREAK_MS = NOW_MS - (INSTANTS - 1 - BROKEN) * STEP_MS


@dataclass(frozen=True)
class Instant:
    """What is said at one."""

    detection: Detection
    noticed: float
    """The smallest fall of Success@10 of the whole that would be."""


@pytest.fixture(scope="module")
def instants() -> list[Instant]:
    """A site that knows one hour before it falls, with 28,800 searches an hour."""
    publisher, found = Publisher(PLAN), []
    site = Site(NOW_MS - INSTANTS * STEP_MS, BREAK_MS, DROP, 480, ("DE", "US"))
    for instant in range(INSTANTS):
        as_of_ms = NOW_MS - (INSTANTS - 1 - instant) * STEP_MS
        reading = publisher.publish([site.lane(as_of_ms)], as_of_ms).reading
        assert reading is not None
        least = [float(each.drop[0]) for each in reading.clicks.changes.noticeable]
        found.append(Instant(reading.clicks.changes, min([1.0, *least])))
    return found


def test_a_fall_of_14_percent_pages_within_the_first_hours(instants: list[Instant]) -> None:
    """One metric tells it for the whole, and stays."""
    pages = [
        [change.series for change in each.detection.told if change.urgency == "page"]
        for each in instants
    ]
    first = next(at for at, series in enumerate(pages) if series)
    assert BROKEN < first <= BROKEN + 6, "within half an hour"
    assert {*map(tuple, pages[first:])} == {(("all", "all", "RR@10"),)} or {
        *map(tuple, pages[first:])
    } == {(("all", "all", "Success@10"),)}, "and it stays"
    (change,) = instants[-1].detection.told
    assert change.z is not None and change.z < -10
    assert change.onset.earliest is not None
    assert change.onset.earliest <= BREAK_MS <= change.onset.latest
    assert change.onset.latest <= change.onset.earliest + 20 * MINUTE_MS


def test_more_and_more_would_be_noticed(instants: list[Instant]) -> None:
    before = [each.noticed for each in instants[:BROKEN]]
    assert before[-1] < DROP < before[0]
