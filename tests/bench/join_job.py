"""The job of the peers that join as the worker does: impressions and the clicks up to 30 minutes
after them, and the means of RR@10 and nDCG@10 by country.

The sums are kept by the minute of the impression, of which a sliding window adds up as many as it
has, and in whole parts of a billion, so that each processor comes to the same numbers or is wrong.
A click has gain 1, the second of an item none.
"""

import math
from collections.abc import Iterable
from typing import Any, Final, TypeAlias

import msgspec

BEFORE_MS: Final = 5_000
AFTER_MS: Final = 1_800_000
MINUTE_MS: Final = 60_000
PLACES: Final = 10
BILLION: Final = 10**9
DISCOUNTS: Final = [round(BILLION / math.log2(place + 2)) for place in range(PLACES)]

Sums: TypeAlias = tuple[int, int, int]
"""Impressions, and the sums of their reciprocal ranks and nDCGs in parts of a billion."""
ByMinute: TypeAlias = dict[tuple[str, int], Sums]
"""(country, start of the minute in ms) → sums."""


def expected(values: Iterable[bytes]) -> ByMinute:
    """The sums of a log, from its definitions: each impression with all of its clicks."""
    impressions, clicks = dict[str, Any](), dict[str, list[Any]]()
    for event in map(msgspec.json.decode, values):
        if event["type"] == "impression":
            impressions[event["impression_id"]] = event
        elif event["kind"] == "click":
            clicks.setdefault(event["impression_id"], []).append(event)
    found: ByMinute = {}
    for id_, impression in impressions.items():
        at_ms = impression["timestamp"]
        places = {
            click["rank"]
            for click in clicks.get(id_, ())
            if at_ms - BEFORE_MS <= click["timestamp"] <= at_ms + AFTER_MS
        }
        key = (impression["attributes"]["country"], at_ms - at_ms % MINUTE_MS)
        found[key] = plus(found.get(key, (0, 0, 0)), _scores(places))
    return found


def _scores(places: set[int]) -> Sums:
    if not places:
        return 1, 0, 0
    gained = sum(DISCOUNTS[place - 1] for place in places)
    return 1, BILLION // min(places), gained * BILLION // sum(DISCOUNTS[: len(places)])


def plus(one: Sums, other: Sums) -> Sums:
    """The sums of both."""
    return one[0] + other[0], one[1] + other[1], one[2] + other[2]
