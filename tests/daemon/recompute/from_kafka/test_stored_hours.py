"""What is stored of hours is shown as far as exporters know it: no sum of some lanes only."""

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from typing import Final, cast

import msgspec
import pytest

from relevanced.daemon.config import load
from relevanced.daemon.errors import Damaged
from relevanced.daemon.panes import HOUR_MS
from relevanced.daemon.plan import Plan
from relevanced.daemon.recompute import redis_client
from relevanced.daemon.recompute.hour_rows import HourRows
from relevanced.daemon.recompute.replay_kafka import hours_of, scores
from relevanced.daemon.storage import (
    ClaimedLane,
    Client,
    InForce,
    LaneDelta,
    Layouts,
    confirm,
    plan_repair,
    rebuild,
)
from relevanced.daemon.views import COUNTS_CELL, HourSources, Mirror, covered
from relevanced.metrics import parse
from tests.builders import PLAN, START_MS, TOPIC, claimed, commit, passing, shown
from tests.daemon.views.test_mirror import delta
from tests.fakes import MemoryLane

BEFORE: Final = replace(PLAN, history_hours=24 * 35)
AFTER: Final = replace(BEFORE, metrics=(*BEFORE.metrics, parse("Success@2")))
MINUTE: Final = 60_000
SPAN: Final = range(START_MS, START_MS + 8 * HOUR_MS)


class Lane:
    """A lane that shows a list each ten minutes of event time."""

    def __init__(self, number: int) -> None:
        self.number, self.store, self.at_ms = number, MemoryLane(), 0
        self.owned = claimed(self.store, plan=BEFORE)

    def read_up_to(self, at_ms: int) -> None:
        for at in range(self.at_ms, at_ms, 10 * MINUTE):
            commit(self.store, self.owned, shown(at, of=f"q{at}"))
        commit(self.store, self.owned, passing(at_ms))
        self.at_ms = at_ms

    def begin_anew(self) -> None:
        offsets, since_ms = self.store.fields["offsets"], START_MS + self.at_ms
        self.store.begin_anew("t1", "t2", offsets, since_ms=since_ms)
        self.owned = claimed(self.store, "t3", plan=BEFORE)

    def add_the_metric(self) -> None:
        self.owned = self._under(AFTER)
        repair = plan_repair(self.owned)
        assert self.store.commit(repair) == "applied"
        confirm(self.owned, repair)

    def _under(self, plan: Plan) -> ClaimedLane:
        head = self.store.claim("t2", msgspec.json.encode({TOPIC: 0}))
        layouts = Layouts(InForce(plan, 1, "after", "after"), lambda _: BEFORE)
        return rebuild(0, layouts, [TOPIC], head, self.store.names, self.store.load(head))


def stored(lanes: Sequence[Lane], plan: Plan) -> HourRows:
    """The hours, once it is shown that these are the ones that exporters know."""
    read = {lane.number: delta(lane.store, Mirror(lane.number, plan)) for lane in lanes}
    found, views = hours_of(read, plan, SPAN).clicks, []
    for number, of in read.items():
        mirror = Mirror(number, plan)
        mirror.apply(of)
        views.append(mirror.view())
    sources = HourSources.of(covered(views, plan), (), plan)
    known = [start for start in sources.starts if sources.known(start)[0, COUNTS_CELL]]
    assert found.starts == [start for start in known if start in SPAN]
    return found


def shown_of(found: HourRows, metric: str) -> list[tuple[int | None, int | None]]:
    """Of each hour the (impressions, scored impressions) that stand beside the computed ones."""
    computed = HourRows(found.plan, SPAN)
    for start in range(SPAN.start, SPAN.stop, HOUR_MS):
        computed.rows[start] = {("all", "all"): found.rows[START_MS + HOUR_MS]["all", "all"]}
    rows = [row for row in scores(computed, found) if row["metric"] == metric]
    return [(row["stored_impressions"], row["stored_scored"]) for row in rows]


def test_hours_before_a_lane_began_anew_are_not_those_of_the_other_lanes() -> None:
    lanes = [Lane(0), Lane(1)]
    for lane in lanes:
        lane.read_up_to(5 * HOUR_MS + MINUTE)
    lanes[1].begin_anew()
    for lane in lanes:
        lane.read_up_to(9 * HOUR_MS)
    assert shown_of(stored(lanes, BEFORE), "P@2") == [(None, None)] * 6 + [(12, 12)] * 2


def test_metric_is_not_stored_of_hours_in_which_some_lane_did_not_have_it() -> None:
    lanes = [Lane(0), Lane(1)]
    for lane, at in zip(lanes, (2 * HOUR_MS + 20 * MINUTE, 3 * HOUR_MS + 30 * MINUTE), strict=True):
        lane.read_up_to(at)
        lane.add_the_metric()
        lane.read_up_to(9 * HOUR_MS)
    found = stored(lanes, AFTER)
    assert shown_of(found, "Success@2") == [(12, None)] * 3 + [(12, 12)] * 5
    assert shown_of(found, "P@2") == [(12, 12)] * 8


def test_lane_that_is_damaged_is_not_passed_over() -> None:
    lane = Lane(0)
    lane.read_up_to(HOUR_MS)
    of = delta(lane.store, Mirror(0, BEFORE))
    broken = {key: b"?" for key in of.pages}
    with pytest.raises(Damaged):
        hours_of({0: replace(of, pages=broken)}, BEFORE, SPAN)


def test_lane_that_has_begun_and_lost_its_head_is_damaged(monkeypatch: pytest.MonkeyPatch) -> None:
    lane = Lane(0)
    lane.read_up_to(HOUR_MS)

    class Store:
        def __init__(self, *_: object) -> None: ...

        async def read(self, number: int, *_: object) -> LaneDelta | None:
            return delta(lane.store, Mirror(0, BEFORE)) if number == 0 else None

    class Lanes(Store):
        begun_lanes = frozenset({0})

        async def lanes(self) -> int:
            return 2

        async def begun(self) -> frozenset[int]:
            return self.begun_lanes

    monkeypatch.setattr(redis_client, "LaneStore", Store)
    monkeypatch.setattr(redis_client, "Namespace", Lanes)
    config, client = load('[kafka]\ntopics = ["t"]\n', {}, "test"), cast(Client, None)

    async def read() -> list[int]:
        return [number async for number, _ in redis_client.whole_lanes(client, config)]

    assert asyncio.run(read()) == [0], "the other one has never begun"
    monkeypatch.setattr(Lanes, "begun_lanes", frozenset({0, 1}))
    with pytest.raises(Damaged, match="lane 1 .* its head is gone"):
        asyncio.run(read())
