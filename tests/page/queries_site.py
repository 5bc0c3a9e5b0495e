"""A site whose queries are kept, served as a daemon serves it: eight days of the same hours, at the
end of which three queries of DE broke.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from functools import cache
from typing import Final

from relevanced.daemon.exporter.mirror import Mirror
from relevanced.daemon.panes import timing
from relevanced.daemon.plan import Plan
from relevanced.daemon.queries.plan import QueryPlan
from relevanced.daemon.storage.head import head_of
from relevanced.daemon.storage.restore import names_of
from relevanced.daemon.storage.store import LaneDelta
from relevanced.metrics import catalog
from tests.daemon.http.test_queries import Site, Stored
from tests.fakes import MemoryLane
from tests.lane_views import published_of, reading_of
from tests.page.browser import Page
from tests.page.served import Daemon

DAY: Final = 24
QUERIES: Final = 16
SEARCHES: Final = 24
BROKEN: Final = ("query 1", "query 3", "query 5")
"""All of DE, as every odd one is."""
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
                    clicked = not fails and turn % 4 > 0
                    user = f"u{turn % 4}"
                    site.search(day * DAY + hour, text, user, clicked=clicked, country=country)
    for turn in range(6):
        site.search(7 * DAY + 1, "nothing there", f"u{turn}", clicked=False, country="DE")
        site.search(7 * DAY + 1, None, f"u{turn}", clicked=False)
    site.search(7 * DAY + 1, "one person's own question", "u1", clicked=True)
    for turn in range(30):
        site.search(7 * DAY + 2, f"New {turn % 2}", f"u{turn % 5}", clicked=True)
    for turn in range(90):  # so that the hour is over, and the next one has begun
        site.search(7 * DAY + 2.6, f"Later {turn % 3}", f"u{turn % 5}", clicked=True)
    return site


@asynccontextmanager
async def serving(memory: MemoryLane, page: Page, *, is_on: bool = True) -> AsyncIterator[Daemon]:
    """A daemon that serves this lane; with `is_on` false one that keeps no queries."""
    head = head_of(memory.fields)
    pages = {key: memory.blobs[key] for key, sequence in memory.listed.items() if sequence}
    mirror = Mirror(0, SITE_PLAN)
    mirror.apply(LaneDelta(head, True, names_of(memory.names, head.state.names)[1:], pages))
    plan = SITE_PLAN if is_on else replace(SITE_PLAN, queries=None)
    reading = reading_of([mirror.view()], plan)
    daemon = Daemon(reading)
    daemon.server.queries = Stored(memory)
    daemon.server.published = published_of(reading)
    await daemon.start()
    yield daemon
    await daemon.stop(page)
