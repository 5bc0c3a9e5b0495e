"""Which hours of the tables of queries a window has: of each, all searches of all lanes are in its
numbers, or a part is said to be missing."""

import asyncio
import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import partial
from typing import Final
from zoneinfo import ZoneInfo

import msgspec
import pytest

from relevanced.daemon.events import instant_ms
from relevanced.daemon.exporter import QueryReads
from relevanced.daemon.lane import WHOLE
from relevanced.daemon.panes import HOUR_MS
from relevanced.daemon.plan import Plan
from relevanced.daemon.queries import QueryPlan
from relevanced.daemon.storage import (
    ClaimedLane,
    Head,
    InForce,
    Layouts,
    QueryHead,
    head_of,
    plan_repair,
    rebuild,
)
from relevanced.daemon.views import QUIET_HOURS, LaneHours, QueryPages, QueryWindow, window_of
from relevanced.metrics import parse
from tests.builders import BASE_MS, PLAN, SETTLE_MS, START_MS, TOPIC, commit, shown
from tests.fakes import MemoryLane
from tests.seeds import seeds

MINUTE: Final = 60_000
KEPT: Final = replace(PLAN, queries=QueryPlan(min_users=0, days=8))


@dataclass
class Partition:
    """A lane and its store, which an exporter reads."""

    plan: Plan = KEPT
    store: MemoryLane = field(default_factory=MemoryLane)
    searches: Counter[int] = field(default_factory=Counter)
    """Start of an hour → how many there were."""
    generation: int = 0
    """Of the layout."""
    topics: Sequence[str] = (TOPIC,)
    """Events come from the first."""

    def former(self, _: int) -> Plan:
        return KEPT

    def claimed(self) -> ClaimedLane:
        head = self.store.claim("t", msgspec.json.encode(dict.fromkeys(self.topics, 0)))
        layouts = Layouts(InForce(self.plan, self.generation, str(self.generation)), self.former)
        return rebuild(0, layouts, [*self.topics], head, self.store.names, self.store.load(head))

    def follow(self, plan: Plan) -> None:
        """Go to another layout, in a commit of its own."""
        self.plan, self.generation = plan, self.generation + 1
        held = self.claimed()
        assert self.store.commit(plan_repair(held)) == "applied"

    def search(self, minutes: Sequence[int]) -> None:
        """One search in each of these minutes, as one batch."""
        found = [shown(at * MINUTE, of=f"i{at}", query="shoes", user_id="u") for at in minutes]
        commit(self.store, self.claimed(), *found)
        self.searches.update(START_MS + at * MINUTE // HOUR_MS * HOUR_MS for at in minutes)


@dataclass
class Site:
    partitions: Sequence[Partition]
    idle_minute: int | None = None
    """When all were last seen to be read to their ends, less the time that is waited."""

    async def head(self, lane: int) -> Head:
        minute = None if self.idle_minute is None else self.idle_minute + 60 * QUIET_HOURS
        clock = None if minute is None else START_MS + minute * MINUTE
        return replace(head_of(self.partitions[lane].store.fields), idle_ms=clock)

    async def values(self, lane: int, keys: Sequence[str]) -> dict[str, bytes | None]:
        return {key: self.partitions[lane].store.blobs.get(key) for key in keys}

    def window(self, name: str) -> tuple[QueryWindow, QueryPages]:
        lanes = [n for n, partition in enumerate(self.partitions) if partition.searches]
        hours = partial(window_of, name=name, hour_ms=HOUR_MS)
        return asyncio.run(QueryReads(self).read(lanes, self.partitions[0].plan, hours))


def assert_true(site: Site, name: str) -> QueryWindow:
    window, tables = site.window(name)
    for start in set(window.hours) - tables.lost:
        pages = tables.pages(WHOLE, [start])
        counted = sum(int(page.sums[:, 0].sum()) for page in pages)
        happened = sum(partition.searches[start] for partition in site.partitions)
        assert counted == happened, f"{name}, {(start - START_MS) / HOUR_MS:g}"
    return window


@pytest.mark.parametrize("change", ["2026-10-25T01:00:00Z", "2027-03-28T01:00:00Z"])
@pytest.mark.parametrize("name", ["now", "1h", "6h", "24h"])
def test_usual_are_the_same_local_hours_after_a_change_of_clocks(change: str, name: str) -> None:
    """Of a whole day all hours are there, so whole days before it serve."""
    zone = ZoneInfo("Europe/Berlin")
    for days_after in range(1, 9):
        now_ms = instant_ms(change) + days_after * 24 * HOUR_MS + 10 * HOUR_MS
        starts = range(now_ms - 14 * 24 * HOUR_MS, now_ms, HOUR_MS)
        lane = LaneHours(0, QueryHead(hours=dict.fromkeys(starts, 1)), now_ms)
        window = window_of([lane], name, HOUR_MS, zone=zone)
        assert len(window.usual) == 7
        hours, *usual = (
            [datetime.fromtimestamp(start / 1000, zone).hour for start in each]
            for each in (window.hours, *window.usual)
        )
        assert all(len(day) == len(hours) for day in usual)
        assert name == "24h" or all(day == hours for day in usual)
        every = [start for each in (window.hours, *window.usual) for start in each]
        assert len({*every}) == len(every), "no hour is there twice"


def test_windows_go_on_by_the_clock_when_a_partition_goes_quiet() -> None:
    busy, quiet = Partition(), Partition()
    site = Site([busy, quiet])
    quiet.search(range(0, 90))
    for hour in range(10):
        busy.search(range(hour * 60, hour * 60 + 60))
    site.idle_minute = 10 * 60
    assert assert_true(site, "1h").until_ms == START_MS + 9 * HOUR_MS
    day, tables = site.window("24h")
    assert [START_MS + HOUR_MS] == sorted(tables.lost.intersection(day.hours)), "what is open there"
    assert day.hours.start == START_MS and assert_true(site, "24h")
    quiet.search([10 * 60])
    site.idle_minute = 10 * 60 + 1
    assert not site.window("24h")[1].lost, "it has settled"


def test_partition_whose_searches_have_time_left_is_waited_for() -> None:
    ahead, behind = Partition(), Partition()
    ahead.search(range(0, 200))
    behind.search(range(0, 121))
    site = Site([ahead, behind], idle_minute=121)
    window, tables = site.window("1h")
    assert window.until_ms == START_MS + HOUR_MS and not tables.lost


def test_windows_have_only_hours_that_every_lane_keeps() -> None:
    plan = replace(KEPT, queries=QueryPlan(min_users=0, days=1))
    ahead, behind = Partition(plan), Partition(plan)
    for hour in range(40):
        ahead.search(range(hour * 60, hour * 60 + 60, 5))
    behind.search(range(0, 20 * 60, 5))
    window = assert_true(Site([ahead, behind]), "24h")
    kept_ms = START_MS + (39 - 24) * HOUR_MS
    assert window.hours == range(kept_ms, START_MS + 19 * HOUR_MS, HOUR_MS)


@pytest.mark.parametrize("seed", seeds(8))
def test_no_hour_lacks_the_lanes_that_kept_fewer_days(seed: int) -> None:
    """Some keep more days again, and some not yet: a reader expects the most."""
    rng = random.Random(seed)
    plans = [replace(KEPT, queries=QueryPlan(min_users=0, days=days)) for days in (1, 2, 8)]
    site, shown_hours = Site([Partition(rng.choice(plans)) for _ in range(3)]), 0
    for day in range(5):
        for partition in site.partitions:
            until = rng.randint(16, 24)  # hours: one is ahead of others
            partition.search(sorted(rng.sample(range(day * 1440, day * 1440 + until * 60), 12)))
            partition.plan = rng.choice(plans)
        site.partitions[0].plan = KEPT
        for name in ("24h", "7d"):
            shown_hours += len(assert_true(site, name).hours)
    print(f"{shown_hours} hours")
    assert shown_hours


def test_lane_with_events_of_which_nothing_has_settled_is_waited_for() -> None:
    """It has searches, and the feedback of its other topic is still to come."""
    both, one = Partition(), Partition(topics=(TOPIC, "clicks"))
    both.search(range(0, 130))
    one.search(range(0, 130))
    site = Site([both, one])
    for name in ("now", "1h"):
        assert not site.window(name)[0].until_ms
    site.idle_minute = 200
    window, tables = site.window("1h")
    assert window.until_ms == START_MS + 3 * HOUR_MS
    day, tables = site.window("24h")
    assert len(day.hours) == 3 and {*day.hours} <= tables.lost, "it is quiet: no table has it"


def test_lane_that_keeps_no_queries_yet_is_waited_for() -> None:
    first, second = Partition(), Partition(replace(KEPT, queries=None))
    for partition in (first, second):
        partition.search(range(0, 130))
    assert not Site([first, second]).window("24h")[0].until_ms


def test_a_lane_that_began_anew_hides_what_it_lost_before_its_next_event_too() -> None:
    """It is not waited for: where its partition is quiet, that may be for days."""
    site = Site([Partition(), Partition()])
    for partition in site.partitions:
        partition.search(range(0, 130))
    offsets, since_ms = msgspec.json.encode({TOPIC: 0}), START_MS + 130 * MINUTE
    site.partitions[1].store.begin_anew("t", "t", offsets, since_ms=since_ms)
    site.partitions[0].search(range(130, 300))
    for name in ("1h", "6h", "24h"):
        window = assert_true(site, name)
        assert window.hours == range(START_MS + 3 * HOUR_MS, START_MS + 4 * HOUR_MS, HOUR_MS)
    assert site.window("now")[0].hours


def test_open_hour_is_shown_where_all_lanes_have_it_from_its_beginning() -> None:
    """Two lanes go to another layout, before and after an hour ends."""
    site = Site([Partition(), Partition()])
    for partition, minutes in zip(site.partitions, (118, 122), strict=True):
        partition.search(range(0, minutes))
        partition.follow(replace(KEPT, metrics=(*KEPT.metrics, parse("P@1"))))
        partition.search(range(minutes, 170))
    window, _ = site.window("now")
    assert not window.hours, "in the third hour one lane counted from the middle on"
    for partition in site.partitions:
        partition.search(range(170, 200))
    window, tables = site.window("now")
    (start,) = window.hours
    assert start == START_MS + 3 * HOUR_MS
    assert len(tables.pages(WHOLE, [start])) == 2


@pytest.mark.parametrize("seed", seeds(8))
def test_whatever_partitions_are_quiet_no_hour_quietly_lacks_searches(seed: int) -> None:
    rng = random.Random(seed)
    site = Site([Partition() for _ in range(3)])
    minute = 0
    for _ in range(30):
        for partition in rng.sample(site.partitions, rng.randint(1, 3)):
            partition.search(sorted(rng.sample(range(minute, minute + 40), rng.randint(1, 5))))
        minute += 40
        site.idle_minute = minute + (SETTLE_MS + BASE_MS) // MINUTE
        for name in ("1h", "24h"):
            assert_true(site, name)
