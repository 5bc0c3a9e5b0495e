"""The exporter: what it serves when a lane cannot be read, or another process has the lease."""

import asyncio
import re
from dataclasses import replace
from typing import Any

import pytest

from relevanced.daemon.errors import Damaged, Unavailable
from relevanced.daemon.exporter import Exporter, Published, refresh_after_s
from relevanced.daemon.storage import LaneDelta, Term
from relevanced.daemon.telemetry import Telemetry
from tests.builders import PLAN, START_MS
from tests.daemon.exporter.one_lane import (
    PATIENCE_S,
    Lane,
    Namespace,
    Outlet,
    delta,
    failing,
    impressions,
    served_when,
)


async def test_what_cannot_be_read_is_reported_and_the_last_scores_stay(monkeypatch: Any) -> None:
    faults = {
        "snapshot": Unavailable("Redis: away"),
        "lanes_whole": Damaged("lane 0: a part is missing"),
    }
    for condition, fault in faults.items():
        lane = Lane(delta(3), fault)
        published = await served_when(lambda p: bool(failing(p)), lane, Namespace(), monkeypatch)
        assert impressions(published) == 3
        assert failing(published) == {condition: str(fault)}


async def test_an_exporter_that_was_ready_stays_so_with_its_copy_while_redis_is_away(
    monkeypatch: Any,
) -> None:
    class Caught(Namespace):
        async def term(self) -> Term:
            return Term(serves=True)

    def away(published: Published) -> bool:
        return any(one.detail == "Redis: away" for one in published.conditions)

    lane = Lane(delta(3), Unavailable("Redis: away"))
    published = await served_when(away, lane, Caught(), monkeypatch)
    assert impressions(published) == 3 and published.ready


async def test_without_a_copy_of_a_damaged_lane_nothing_is_served(monkeypatch: Any) -> None:
    """Not what the other lanes sum up to."""

    class Lanes(Namespace):
        async def lanes(self) -> int:
            return 2

    class Half(Lane):
        async def read(self, lane: int, token: str, sequence: int | None, names: int) -> Any:
            if lane == 1:
                raise Damaged("lane 1: a part is missing")
            return await super().read(lane, token, sequence, names)

    done = "lanes_whole"
    published = await served_when(
        lambda p: done in failing(p), Half(delta(3)), Lanes(), monkeypatch
    )
    assert published.report is None and published.text.plain == ()
    assert failing(published).keys() == {"lanes_whole", "snapshot"}
    assert "lane 1" in failing(published)["lanes_whole"]


async def test_lane_that_began_and_has_no_head_is_no_lane_without_traffic(monkeypatch: Any) -> None:
    class Begun(Namespace):
        async def begun(self) -> frozenset[int]:
            return frozenset({0})

    published = await served_when(
        lambda p: "lanes_whole" in failing(p), Lane(None), Begun(), monkeypatch
    )
    assert published.report is None and "its head is gone" in failing(published)["lanes_whole"]


@pytest.mark.parametrize(("behind_s", "as_of_ms"), [(3600, START_MS - 3_600_000), (-60, START_MS)])
async def test_what_is_served_ends_at_the_clock(
    behind_s: float, as_of_ms: int, monkeypatch: Any
) -> None:
    clock_s = START_MS / 1000 - behind_s
    published = await served_when(
        lambda p: impressions(p) > 0, Lane(delta(3)), Namespace(), monkeypatch, clock_s
    )
    assert published.reading is not None
    assert published.reading.snapshot.as_of_ms == as_of_ms


async def test_a_damaged_page_is_reported_and_read_again(monkeypatch: Any) -> None:
    lane = Lane(delta(3), delta(4, page=b"rubbish"), delta(5))
    faults: list[str] = []

    def done(published: Published) -> bool:
        faults.extend(failing(published).values())
        return impressions(published) == 5

    await served_when(done, lane, Namespace(), monkeypatch)
    assert len(faults) == 1 and "a part is missing or cannot be read" in faults[0]


async def test_a_process_without_the_lease_answers_all_but_the_series(monkeypatch: Any) -> None:
    namespace = Namespace()
    namespace.leads = False
    published = await served_when(lambda p: p.ready, Lane(delta(3)), namespace, monkeypatch)
    assert impressions(published) == 3 and published.reading is not None
    assert published.text.plain == () and published.openmetrics.plain == ()
    assert not namespace.released and namespace.selection is None


async def test_a_process_that_loses_the_lease_keeps_its_answers_and_drops_the_series(
    monkeypatch: Any,
) -> None:
    namespace, texts = Namespace(), []

    def done(published: Published) -> bool:
        texts.append(bool(published.text.plain))
        namespace.leads = not texts[0]
        return published.reading is not None and not texts[-1]

    published = await served_when(done, Lane(delta(3)), namespace, monkeypatch)
    assert texts == [True, False] and impressions(published) == 3 and published.ready


@pytest.mark.parametrize("led_between", [False, True])
async def test_an_exporter_alone_without_redis_serves_its_series_for_a_minute_and_no_longer(
    led_between: bool, monkeypatch: Any
) -> None:
    """Another may serve them by then. What it answers stays; its counters go on, if it leads next,
    where they were, also after a roll-back."""
    monkeypatch.setattr("relevanced.daemon.exporter.exporter.REFRESH_EVERY_S", 0.0)
    monkeypatch.setattr("relevanced.daemon.exporter.exporter.STANDBY_EVERY_S", 0.0)
    times_s = (100.0, 159.9, 160.0, 161.0, 170.0, 171.0)
    telemetry, seen = Telemetry("test"), list[tuple[bool, bool]]()

    class Link(Namespace):
        async def lease(self, token: str, silence_ms: int) -> bool:
            if len(seen) in (1, 2, 3):
                raise Unavailable("Redis: away")
            return not (led_between and len(seen) == 4)

    def done(now: Published) -> bool:
        said = {c.name: c.detail for c in now.conditions}["snapshot"]
        assert ("are not served" in said) == (len(seen) in (2, 3)), said
        assert impressions(now) == (3 if len(seen) < 4 else 2) and now.ready
        holds = b"relevanced_exporter_lease_held 1.0" in telemetry.render(False)
        seen.append((bool(now.text.plain), holds))
        return len(seen) == len(times_s)

    back = replace(delta(2), head=replace(delta(2).head, token="other"))
    outlet, store = Outlet(done), Lane(delta(3), back)
    exporter = Exporter(
        *(store, Link(), PLAN, telemetry, outlet, outlet.stop, lambda: START_MS / 1000 + 10),
        monotonic=lambda: times_s[min(len(seen), len(times_s) - 1)],
    )
    async with asyncio.timeout(PATIENCE_S):
        await exporter.run()
    leads = [True, True, False, False, not led_between, True]
    assert seen == [(each, each) for each in leads]
    counted = b'relevanced_events_total{kind="impression"} ' + (b"2" if led_between else b"3")
    assert counted in b"".join(outlet.published.text.plain)


async def test_after_a_roll_back_all_processes_answer_what_is_stored(monkeypatch: Any) -> None:
    """While the counters of the one that serves them stay where they were."""

    def done(published: Published) -> bool:
        return published.reading is not None and published.reading.views[0].token == "other"

    back = replace(delta(2), head=replace(delta(2).head, token="other"))
    published = await served_when(done, Lane(delta(3), back), Namespace(), monkeypatch)
    assert impressions(published) == 2
    assert b'relevanced_events_total{kind="impression"} 3' in b"".join(published.text.plain)


async def test_lanes_that_do_not_move_are_stated_and_change_nothing(monkeypatch: Any) -> None:
    monkeypatch.setattr("relevanced.daemon.views.mirror.STALLED_AFTER_S", 0.01)
    said = "no owner, or no answer from Kafka"

    def stalled(published: Published) -> bool:
        return any(said in c.detail for c in published.conditions)

    published = await served_when(stalled, Lane(delta(3)), Namespace(), monkeypatch)
    assert published.ready


async def test_a_fresh_namespace_is_ready_once_it_has_caught_up(monkeypatch: Any) -> None:
    namespace, published = Namespace(), []
    namespace.has_caught_up = False
    hour_ms = 3_600_000
    heads = [
        replace(delta(n).head, watermarks={"events": START_MS - behind_ms})
        for n, behind_ms in ((1, 2 * hour_ms), (2, hour_ms), (3, 60_000), (4, 3 * hour_ms))
    ]
    lane = Lane(*(LaneDelta(head, True, [], {}) for head in heads))

    def done(now: Published) -> bool:
        published.append((impressions(now), now.ready, now.catching_up))
        return impressions(now) == 4

    last = await served_when(done, lane, namespace, monkeypatch, START_MS / 1000)
    assert namespace.has_caught_up
    assert [ready for _, ready, _ in published] == [False, False, True, True], "once in its life"
    behind = [progress and progress.behind_ms for _, _, progress in published]
    assert behind == [2 * hour_ms, hour_ms, None, None] and not failing(last)


@pytest.mark.parametrize("predecessor", ["relevanced-old", None])
async def test_while_a_namespace_catches_up_its_predecessor_alone_serves_series(
    predecessor: str | None, monkeypatch: Any
) -> None:
    """The API answers before, and says how far behind it is: scrapers do not ask for readiness."""
    namespace, series = Namespace(), []
    namespace.has_caught_up, namespace.predecessor = False, predecessor
    heads = [
        replace(delta(n).head, watermarks={"events": START_MS - behind_ms})
        for n, behind_ms in ((1, 7_200_000), (2, 60_000), (3, 60_000))
    ]

    def done(now: Published) -> bool:
        series.append((impressions(now), bool(now.text.plain)))
        return impressions(now) == 3

    lane = Lane(*(LaneDelta(head, True, [], {}) for head in heads))
    await served_when(done, lane, namespace, monkeypatch, START_MS / 1000)
    alone = predecessor is None
    assert series == [(1, alone), (2, alone), (3, True)]


async def test_a_namespace_that_was_succeeded_serves_no_series_and_names_the_other(
    monkeypatch: Any,
) -> None:
    namespace, series = Namespace(), []

    def done(now: Published) -> bool:
        series.append((now.ready, bool(now.text.plain)))
        namespace.successor = "relevanced-new" if now.ready else namespace.successor
        if len(series) == 3:
            namespace.successor = None
        return len(series) > 3 and now.ready

    published = await served_when(done, Lane(delta(3)), namespace, monkeypatch)
    assert series == [(True, True), (False, False), (False, False), (True, True)]
    assert published.successor is None


@pytest.mark.parametrize(
    ("fault", "lanes"),
    [
        (None, 0),
        (Damaged("lane 0: a part is missing"), 1),
        (delta(3, page=b"rubbish"), 1),
        (Unavailable("Redis: away"), 1),
    ],
)
async def test_a_retired_namespace_says_so_also_where_no_snapshot_can_be_made(
    fault: LaneDelta | Exception | None, lanes: int, monkeypatch: Any
) -> None:
    """An exporter that says 0 would deny what was said before, and its end be taken for a fault."""
    telemetry, said = Telemetry("test"), list[float | None]()

    class Retired(Namespace):
        async def lanes(self) -> int:
            return lanes

        async def term(self) -> Term:
            if not said:
                raise Unavailable("Redis: away")
            return Term(True, retired=True)

    def done(published: Published) -> bool:
        found = re.search(rb"\nrelevanced_superseded (\S+)", telemetry.render(False))
        said.append(found and float(found[1]))
        return len(said) == 3

    await served_when(done, Lane(fault), Retired(), monkeypatch, telemetry=telemetry)
    assert said == [None, 1, 1]


async def test_a_process_that_was_ready_stays_so_while_lost_state_is_read_again(
    monkeypatch: Any,
) -> None:
    namespace = Namespace()

    def done(now: Published) -> bool:
        namespace.has_caught_up = not now.ready
        return now.catching_up is not None

    clock_s = START_MS / 1000 + 7200
    published = await served_when(done, Lane(delta(3)), namespace, monkeypatch, clock_s)
    (said,) = [c for c in published.conditions if c.name == "caught_up"]
    assert published.ready and "2 h" in said.detail
    assert said.detail.startswith("Redis lost the state")


async def test_no_lane_yet_is_reported(monkeypatch: Any) -> None:
    published = await served_when(lambda p: bool(failing(p)), Lane(None), Namespace(), monkeypatch)
    assert failing(published) == {"snapshot": "no lane has been claimed yet"}


@pytest.mark.parametrize(
    ("took_s", "after_s"), [(0.0, 0.25), (0.02, 0.25), (0.05, 0.5), (0.1, 1.0), (5.0, 1.0)]
)
def test_a_cheap_refresh_comes_often(took_s: float, after_s: float) -> None:
    assert refresh_after_s(took_s) == pytest.approx(after_s)
