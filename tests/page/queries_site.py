"""A site whose queries are kept, served as a daemon serves it: eight days of the same hours, at the
end of which three queries of DE broke.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from functools import cache
from itertools import takewhile
from typing import Final

import msgspec

from relevanced.daemon.config import loading as config
from relevanced.daemon.events import Limits, decoder
from relevanced.daemon.lane import new_lane
from relevanced.daemon.plan import Plan
from relevanced.daemon.queries import QueryPlan
from relevanced.daemon.storage import (
    ClaimedLane,
    InForce,
    LaneDelta,
    confirm,
    first_layouts,
    head_of,
    names_of,
    plan_commit,
)
from relevanced.daemon.timing import timing
from relevanced.daemon.tools.demonstration import BACKFILL_S, SETTINGS, demo_traffic
from relevanced.daemon.tools.traffic import Regression, generate_events
from relevanced.daemon.views import Mirror
from relevanced.metrics import catalog
from tests.daemon.http.test_queries import Record, Site, Stored
from tests.fakes import MemoryLane
from tests.lane_views import published_of, reading_of
from tests.page.browser import Page
from tests.page.served import HOSTILE, Daemon
from tests.whole_batch import process_batch

DAY: Final = 24
QUERIES: Final = 16
SEARCHES: Final = 24
BROKEN: Final = ("query 1", "query 3", "query 5")
"""All of DE, as every odd one is."""
DEMO_SETTINGS: Final = config.load(SETTINGS, {}, "demo")
DEMO_START_MS: Final = 1_795_176_000_000 + 5 * 60_000
"""So that the live traffic of the demo begins at a quarter past an hour."""
DEMO_BROKEN_S: Final = 300
BATCH: Final = 4_000
HOSTILE_ITEMS: Final = (HOSTILE, "\u202e" * 9, "x" * 256)
SITE_PLAN: Final = Plan(
    timing=timing([("1h", 3600)], 1800, 60),
    metrics=(catalog.parse("P@1"), catalog.parse("RR@10"), catalog.parse("FirstFeedbackSeconds")),
    groupings=(("country",), ("device",)),
    grades={"click": 1.0},
    queries=QueryPlan(kept=60, by="country", min_users=3, salt=b"s"),
)


@cache
def stored(names: tuple[str, ...] = ()) -> MemoryLane:
    """What the site's lane stores."""
    return broken_site(names).store()[0]


def broken_site(names: tuple[str, ...] = ()) -> Site:
    """The searches of the site. `names` are more queries of DE, that broke too."""
    site = Site(SITE_PLAN)
    for day in range(8):
        for hour in (0, 1):
            is_broken = (day, hour) == (7, 1)
            texts = [*(f"Query {number}" for number in range(QUERIES)), *names]
            for number, text in enumerate(texts):
                fails = is_broken and (text.lower() in BROKEN or number >= QUERIES)
                country = "DE" if number % 2 or number >= QUERIES else "US"
                for turn in range(SEARCHES):
                    # What fails is clicked at its second rank now and then.
                    site.search(
                        day * DAY + hour,
                        text,
                        f"u{turn % 4}",
                        clicked=turn % 4 == 0 if fails else turn % 4 > 0,
                        country=country,
                        items=HOSTILE_ITEMS if number >= QUERIES else ("a", "b"),
                        rank=2 if fails else 1,
                        prefix=HOSTILE if number >= QUERIES else "i",
                    )
    for turn in range(6):
        site.search(7 * DAY + 1, "nothing there", f"u{turn}", clicked=False, country="DE")
        site.search(7 * DAY + 1, None, f"u{turn}", clicked=False)
    site.search(7 * DAY + 1, "one person's own question", "u1", clicked=True)
    for turn in range(30):
        site.search(7 * DAY + 2, f"New {turn % 2}", f"u{turn % 5}", clicked=True)
    for turn in range(90):  # so that the hour is over, and the next one has begun
        site.search(7 * DAY + 2.6, f"Later {turn % 3}", f"u{turn % 5}", clicked=True)
    return site


@cache
def demo_lane() -> MemoryLane:
    """What a lane of the demo stores five minutes after the ranking of DE broke, under the demo's
    own settings."""
    until_ms = DEMO_START_MS + (BACKFILL_S + 2 * DEMO_BROKEN_S) * 1000
    regression = Regression(BACKFILL_S + DEMO_BROKEN_S)
    traffic = replace(demo_traffic(seed=1, rate=30), regression=regression)
    events = generate_events(traffic, DEMO_START_MS)
    due = takewhile(lambda pair: pair[0] < until_ms, events)
    records = [Record(msgspec.json.encode(event), n) for n, (_, event) in enumerate(due)]
    return store_of(DEMO_SETTINGS.plan, DEMO_SETTINGS.limits, records)


def store_of(plan: Plan, limits: Limits, records: list[Record]) -> MemoryLane:
    """What a lane stores after these records."""
    memory, lane = MemoryLane(), new_lane(0, plan, {"t": 0}, ["t"])
    memory.claim("a", b'{"t":0}')
    claimed = ClaimedLane(lane, first_layouts(InForce(plan)), "a", 0, [], 1, 0, 0)
    claimed.layouts_stored = False
    decode = decoder("native", limits)
    for first in range(0, len(records), BATCH):
        part = records[first : first + BATCH]
        process_batch(lane, {"t": part}, {"t": part[-1].offset + 1}, decode)
        commit = plan_commit(claimed)
        assert memory.commit(commit) == "applied"
        confirm(claimed, commit)
    return memory


@asynccontextmanager
async def serving(
    memory: MemoryLane, page: Page, *, plan: Plan = SITE_PLAN, is_on: bool = True
) -> AsyncIterator[Daemon]:
    """A daemon that serves this lane; with `is_on` false one that keeps no queries."""
    head = head_of(memory.fields)
    pages = {key: memory.blobs[key] for key, sequence in memory.listed.items() if sequence}
    mirror = Mirror(0, plan)
    mirror.apply(LaneDelta(head, True, names_of(memory.names, head.state.names)[1:], pages))
    plan = plan if is_on else replace(plan, queries=None)
    reading = reading_of([mirror.view()], plan)
    daemon = Daemon(reading)
    daemon.server.queries = Stored(memory)
    daemon.server.published = published_of(reading)
    await daemon.start()
    yield daemon
    await daemon.stop(page)
