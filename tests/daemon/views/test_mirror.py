"""A reader's lane: the same rows as the writer's, however often it was read."""

import random

import numpy as np

from relevanced.daemon.lane import PAGE_ROWS, Pages
from relevanced.daemon.plan import Plan
from relevanced.daemon.storage import LaneDelta, confirm, head_of, names_of, plan_commit
from relevanced.daemon.views import Mirror
from tests.builders import (
    BASE_MS,
    PLAN,
    SETTLE_MS,
    START_MS,
    claimed,
    clicked,
    commit,
    leaping,
    passing,
    plan_with,
    record,
    shown,
)
from tests.fakes import MemoryLane
from tests.replica import decoder_of, plan_of
from tests.streams import SMALL_CONFIG, random_records
from tests.whole_batch import process_batch


def delta(store: MemoryLane, mirror: Mirror) -> LaneDelta:
    """What the store would return to this reader."""
    head = head_of(store.fields)
    whole = mirror.token != head.token or (mirror.sequence or 0) > head.sequence
    since, first_new = (0, 1) if whole else (mirror.sequence or 0, max(len(mirror.names), 1))
    changed = [key for key, sequence in store.listed.items() if sequence > since]
    names = names_of(store.names, head.state.names)[first_new:]
    return LaneDelta(head, whole, names, {key: store.blobs[key] for key in changed})


def read(store: MemoryLane, mirror: Mirror | None = None, plan: Plan = PLAN) -> Mirror:
    mirror = mirror or Mirror(0, plan)
    mirror.apply(delta(store, mirror))
    return mirror


def same_rows(one: Pages, other: Pages) -> bool:
    return one.keys() == other.keys() and all(np.array_equal(one[p], other[p]) for p in one)


def assert_same(one: Mirror, other: Mirror) -> None:
    assert one.names.segments == other.names.segments
    assert one.rows.panes.keys() == other.rows.panes.keys()
    assert all(same_rows(pages, other.rows.panes[key]) for key, pages in one.rows.panes.items())
    assert same_rows(one.totals, other.totals)
    assert one.rows.hours == other.rows.hours


def test_a_new_reader_reads_from_the_beginning() -> None:
    mirror = Mirror(0, PLAN)
    assert (mirror.token, mirror.sequence, mirror.watermark_ms) == ("", None, None)


def test_a_view_stays_as_it_was_taken() -> None:
    store = MemoryLane()
    lane = claimed(store)
    commit(store, lane, shown(0))
    mirror = read(store)
    view = mirror.view()
    commit(store, lane, shown(1, of="r"))
    after = read(store, mirror).view()
    assert (view.panes[0, START_MS][0][0, 0], after.panes[0, START_MS][0][0, 0]) == (1, 2)


def test_a_view_shows_the_lane_at_its_commit() -> None:
    store = MemoryLane()
    commit(store, claimed(store), shown(0, attributes={"country": "US"}), clicked(1, "a"))
    view = read(store).view()
    assert (view.token, view.sequence) == ("t1", 1)
    assert view.names.segments == [("all", "all"), ("country", "US")]
    assert (view.watermark_ms, view.idle_ms, view.has_events) == (START_MS + 1, None, True)
    assert view.panes[0, START_MS][0][:3, 0].tolist() == [1, 1, 0]
    assert view.totals == {}


def test_a_later_read_applies_what_changed() -> None:
    store = MemoryLane()
    owned = claimed(store)
    commit(store, owned, shown(0, attributes={"country": "US"}))
    mirror = read(store)
    commit(store, owned, shown(BASE_MS, of="p", attributes={"country": "DE"}))
    assert set(delta(store, mirror).pages) < set(store.listed)
    read(store, mirror)
    assert [name for _, name in mirror.names.segments] == ["all", "US", "DE"]
    assert mirror.rows.panes.keys() == {(0, START_MS), (0, START_MS + BASE_MS), (1, START_MS)}


def test_a_new_owner_means_reading_everything_again() -> None:
    store = MemoryLane()
    commit(store, claimed(store), shown(0, attributes={"country": "US"}))
    mirror = read(store)
    mirror.rows.panes[0, START_MS][0][0, 0] = 99
    claimed(store, "t2")
    assert_same(read(store, mirror), read(store))
    assert [name for _, name in mirror.names.segments] == ["all", "US"]


def test_panes_that_no_view_needs_are_dropped() -> None:
    store = MemoryLane()
    owned = claimed(store)
    commit(store, owned, shown(0))
    mirror = read(store)
    commit(store, owned, *leaping(10**9))
    assert read(store, mirror).rows.panes == {}
    assert mirror.view().totals[0][0, 0] == 1


def test_totals_appear_when_there_are_any() -> None:
    store = MemoryLane()
    owned = claimed(store)
    commit(store, owned, shown(0))
    mirror = read(store)
    assert mirror.totals == {}
    commit(store, owned, passing(BASE_MS + SETTLE_MS))
    assert read(store, mirror).view().totals[0][0, 0] == 1


def test_rows_grow_by_pages_and_keep_their_values() -> None:
    plan, store = plan_with(max_segments=100), MemoryLane()
    owned = claimed(store, plan=plan)
    many = [shown(0, of=f"q{n}", attributes={"country": f"c{n}"}) for n in range(PAGE_ROWS + 5)]
    commit(store, owned, *many[:3])
    mirror = read(store, plan=plan)
    commit(store, owned, *many[3:])
    first, second = (read(store, mirror).rows.panes[0, START_MS][page] for page in (0, 1))
    assert first.shape == second.shape == (PAGE_ROWS, plan.row_width)
    assert first[:, 0].tolist() == [PAGE_ROWS + 5] + [1] * (PAGE_ROWS - 1)
    assert second[:, 0].tolist() == [1] * 6 + [0] * (PAGE_ROWS - 6)


def test_a_silent_topic_means_no_watermark() -> None:
    store = MemoryLane()
    commit(store, claimed(store), shown(0))
    for marks in (b'{"events":5,"clicks":null}', b"{}"):
        store.fields["watermarks"] = marks
        assert read(store).watermark_ms is None
    store.fields["watermarks"] = b'{"events":5,"clicks":3}'
    assert read(store).watermark_ms == 3


def test_reading_often_seldom_or_once_is_the_same(rng: np.random.Generator) -> None:
    seed = int(rng.integers(2**32))
    records = random_records(random.Random(seed), topics=1, partitions=1, events=300)
    plan, decode, store = plan_of(SMALL_CONFIG), decoder_of(SMALL_CONFIG), MemoryLane()
    owned = claimed(store, plan=plan, topic="search-events")
    often, seldom = Mirror(0, plan), Mirror(0, plan)
    for index, source in enumerate(records):
        process_batch(owned.lane, {"search-events": [record(source.value)]}, {}, decode)
        planned = plan_commit(owned)
        assert store.commit(planned) == "applied"
        confirm(owned, planned)
        read(store, often)
        if rng.random() < 0.05:
            read(store, seldom)
        if index == len(records) // 2:
            owned = claimed(store, "t2", plan=plan, topic="search-events")
    assert_same(often, read(store, plan=plan))
    assert_same(read(store, seldom), often)
    assert same_rows(often.view().totals, owned.lane.totals.pages)
