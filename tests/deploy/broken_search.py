"""What the daemon serves of a search that broke: simulated events through a lane and the exporter.

Two weeks apart, the same hours: last week nothing was broken, this week something broke hours ago.
"""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import cache
from itertools import takewhile
from types import SimpleNamespace
from typing import Any, Final

import msgspec

from relevanced.daemon.config import load
from relevanced.daemon.events import decoder
from relevanced.daemon.exporter import Publisher
from relevanced.daemon.storage import confirm, plan_commit
from relevanced.daemon.tools.traffic import (
    EVENTS_PER_IMPRESSION,
    Breakage,
    Regression,
    Traffic,
    generate_events,
)
from tests.builders import TOPIC, claimed
from tests.daemon.views.test_mirror import read
from tests.fakes import MemoryLane
from tests.whole_batch import process_batch

HOUR_MS: Final = 3_600_000
WEEK_MS: Final = 7 * 24 * HOUR_MS
END_MS: Final = 1_795_176_000_000
HOURS: Final = 8
BROKEN_HOURS: Final = 3.5
SEARCHES_PER_HOUR: Final = 10_000
SEED: Final = 11
AT_ONCE: Final = 20_000
CONFIG: Final = load(
    """
[attribution]
window = "5m"
[metrics]
names = ["Success@10", "RR@10", "P@5"]
[segments]
groupings = [["country"]]
""",
    {},
    "test",
)


@cache
def page(what: Breakage, segment: tuple[tuple[str, str], ...]) -> str:
    """The exporter's text, after this broke for this segment."""
    store = MemoryLane()
    owned = claimed(store, plan=CONFIG.plan)
    decode = decoder("native", CONFIG.limits)
    records = list(_records(what, dict(segment)))
    for first in range(0, len(records), AT_ONCE):
        part = records[first : first + AT_ONCE]
        process_batch(owned.lane, {TOPIC: part}, {TOPIC: first + len(part)}, decode)
        commit = plan_commit(owned)
        assert store.commit(commit) == "applied"
        confirm(owned, commit)
    view = read(store, plan=CONFIG.plan).view()
    published = Publisher(CONFIG.plan).publish([view], END_MS)
    return b"".join(published.text.plain).decode()


def _records(what: Breakage, segment: Mapping[str, str]) -> Iterator[Any]:
    rate = SEARCHES_PER_HOUR / 3600 * EVENTS_PER_IMPRESSION
    healthy = Regression(2 * HOURS * 3600, segment, what)
    broken = replace(healthy, after_s=(HOURS - BROKEN_HOURS) * 3600)
    offset = 0
    for end_ms, regression in ((END_MS - WEEK_MS, healthy), (END_MS, broken)):
        traffic = Traffic(seed=SEED, rate=rate, regression=regression)
        events = generate_events(traffic, end_ms - HOURS * HOUR_MS)
        for at_ms, event in takewhile(lambda timed: timed[0] < end_ms, events):  # noqa: B023
            yield SimpleNamespace(
                topic=TOPIC,
                partition=0,
                offset=offset,
                timestamp=at_ms,
                key=b"k",
                value=msgspec.json.encode(event),
            )
            offset += 1
