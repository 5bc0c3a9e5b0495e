"""What a commit writes, what it removes, and the lane that is read back from the rest."""

import random
from typing import Final

import pytest

from relevanced.daemon.errors import Damaged
from relevanced.daemon.events import Event
from relevanced.daemon.lane import PAGE_ROWS, kept_rows
from relevanced.daemon.storage import (
    ADMITTED_KEY,
    CLICKS,
    LAYOUTS_KEY,
    ClaimedLane,
    Commit,
    Head,
    WriterState,
    blob_keys,
    confirm,
    head_of,
    names_of,
    plan_commit,
    totals_key,
    unpack_page,
)
from tests.builders import (
    BASE_MS,
    PLAN,
    SETTLE_MS,
    START_MS,
    claimed,
    clicked,
    commit,
    gains,
    items,
    judged,
    leaping,
    passing,
    plan_with,
    record,
    row,
    settled,
    shown,
    totals,
)
from tests.fakes import MemoryLane
from tests.replica import decoder_of, plan_of, rows_of
from tests.seeds import seeds
from tests.streams import SMALL_CONFIG, random_records
from tests.whole_batch import process_batch

SETTLES_MS = BASE_MS + SETTLE_MS
PAGE: Final = CLICKS.pane(PLAN.timing, (0, START_MS), 0)
LONG_AFTER_MS: Final = 10**9


@pytest.fixture
def store() -> MemoryLane:
    return MemoryLane()


@pytest.fixture
def owned(store: MemoryLane) -> ClaimedLane:
    return claimed(store)


def open_keys(planned: Commit) -> list[str]:
    return [key for key in planned.blobs if key.startswith("open:")]


# What is written


def test_a_commit_writes_what_changed_and_nothing_else(
    store: MemoryLane, owned: ClaimedLane
) -> None:
    first = commit(store, owned, shown(0, attributes={"country": "US"}))
    pages = {PAGE, CLICKS.pane(PLAN.timing, (1, START_MS), 0)}
    assert set(first.blobs) == {*pages, "open:1", ADMITTED_KEY, LAYOUTS_KEY}
    second = commit(store, owned, clicked(1, "a"))
    assert set(second.blobs) == {*pages, "open:2"}
    assert (set(second.listed), second.unlinked, second.names) == (pages, ["open:1"], {})


def test_a_batch_without_effect_writes_the_head_alone(
    store: MemoryLane, owned: ClaimedLane
) -> None:
    commit(store, owned, shown(0))
    idle = commit(store, owned, passing(1))
    assert (dict(idle.blobs), list(idle.unlinked), dict(idle.names)) == ({}, [], {})
    assert head_of(store.fields).watermarks == {"events": START_MS + 1}


def test_only_new_names_are_written(store: MemoryLane, owned: ClaimedLane) -> None:
    first = commit(store, owned, shown(0, attributes={"country": "US"}))
    second = commit(store, owned, shown(0, of="p", attributes={"country": "DE"}))
    assert dict(first.names) == {"1": b'[1,"US"]'}
    assert dict(second.names) == {"2": b'[1,"DE"]'}


def test_only_pages_that_changed_are_written(store: MemoryLane) -> None:
    owned = claimed(store, plan=plan_with(max_segments=100))
    many = [shown(0, of=f"q{n}", attributes={"country": f"c{n}"}) for n in range(PAGE_ROWS + 6)]
    assert CLICKS.pane(PLAN.timing, (0, START_MS), 1) in commit(store, owned, *many).blobs
    again = commit(store, owned, shown(0, of="again", attributes={"country": "c0"}))
    assert [key for key in again.listed if key.startswith("rows:300:")] == [PAGE]
    assert unpack_page(again.blobs[PAGE])[0, 0] == PAGE_ROWS + 7


def test_totals_are_written_when_a_pane_settles(store: MemoryLane, owned: ClaimedLane) -> None:
    commit(store, owned, shown(0))
    settling = commit(store, owned, passing(SETTLES_MS))
    assert list(settling.listed) == [totals_key(0)]
    assert unpack_page(settling.blobs[totals_key(0)])[0, 0] == 1


def test_planning_twice_gives_the_same_bytes(store: MemoryLane, owned: ClaimedLane) -> None:
    commit(store, owned, shown(0), clicked(1, "nowhere"))
    settled(owned.lane, clicked(2, "a"), shown(3, of="p"))
    first, second = plan_commit(owned, 5), plan_commit(owned, 5)
    assert (first.blobs, first.fields, first.names) == (second.blobs, second.fields, second.names)
    assert (first.unlinked, first.listed) == (second.unlinked, second.listed)
    assert first.sequence == second.sequence


def test_planning_changes_nothing_until_it_is_confirmed(
    store: MemoryLane, owned: ClaimedLane
) -> None:
    settled(owned.lane, shown(0))
    planned = plan_commit(owned)
    assert (owned.sequence, owned.log, owned.names, owned.next_slot) == (0, [], 1, 0)
    confirm(owned, planned)
    assert (owned.sequence, len(owned.log), owned.names, owned.next_slot) == (1, 1, 2, 1)
    assert not owned.lane.pages


def test_confirming_twice_is_confirming_once(store: MemoryLane, owned: ClaimedLane) -> None:
    settled(owned.lane, shown(0))
    planned = plan_commit(owned)
    confirm(owned, planned)
    confirm(owned, planned)
    assert (owned.sequence, len(owned.log), owned.next_slot) == (1, 1, 1)


def test_a_commit_sent_again_is_answered_already_or_lost(
    store: MemoryLane, owned: ClaimedLane
) -> None:
    settled(owned.lane, shown(0))
    planned = plan_commit(owned)
    assert [store.commit(planned) for _ in range(2)] == ["applied", "already"]
    confirm(owned, planned)
    later = commit(store, owned, clicked(1, "a"))
    assert [store.commit(one) for one in (planned, later)] == ["lost", "already"]


def test_the_idle_mark_is_written_only_if_given(owned: ClaimedLane) -> None:
    assert "idle" not in plan_commit(owned).fields
    assert plan_commit(owned, 0).fields["idle"] == b"0"


# What is removed


def test_where_a_further_log_began_is_written_once(store: MemoryLane, owned: ClaimedLane) -> None:
    assert owned.start == {"events": 0}
    owned.added = {"events/4": 7}
    for _ in range(2):
        commit(store, owned)
        assert head_of(store.fields).start == {"events": 0, "events/4": 7}
    assert "start" not in plan_commit(owned).fields


def test_expired_blocks_are_unlinked(store: MemoryLane, owned: ClaimedLane) -> None:
    commit(store, owned, shown(0))
    over = commit(store, owned, passing(SETTLES_MS))
    assert (list(over.unlinked), owned.log) == (["open:1"], [])
    assert not [key for key in store.blobs if key.startswith("open:")]


def test_panes_that_are_no_longer_kept_are_unlinked(store: MemoryLane, owned: ClaimedLane) -> None:
    commit(store, owned, shown(0))
    commit(store, owned, *leaping(LONG_AFTER_MS))
    assert set(store.blobs) == {totals_key(0), ADMITTED_KEY, LAYOUTS_KEY}
    followed = {key for key, sequence in store.listed.items() if sequence}
    assert followed == {totals_key(0), LAYOUTS_KEY}


def test_all_pages_of_a_dropped_pane_are_unlinked(store: MemoryLane) -> None:
    owned = claimed(store, plan=plan_with(max_segments=100))
    many = [shown(0, of=f"q{n}", attributes={"country": f"c{n}"}) for n in range(PAGE_ROWS + 6)]
    commit(store, owned, *many)
    commit(store, owned, *leaping(LONG_AFTER_MS))
    assert set(store.blobs) == {totals_key(0), totals_key(1), ADMITTED_KEY, LAYOUTS_KEY}


def test_a_block_counts_each_entry_once(store: MemoryLane, owned: ClaimedLane) -> None:
    commit(store, owned, shown(0), clicked(1, "a"), clicked(1, "nowhere"))
    assert [block.size for block in owned.log] == [2]


def test_merged_blocks_are_unlinked_with_the_commit_that_contains_them(
    store: MemoryLane, owned: ClaimedLane
) -> None:
    commit(store, owned, shown(0))
    merging = commit(store, owned, shown(1, of="p"))
    assert (open_keys(merging), list(merging.unlinked)) == (["open:2"], ["open:1"])
    assert [block.entry and block.entry.number for block in owned.log] == [2]


def test_a_merged_block_without_open_content_is_not_written(
    store: MemoryLane, owned: ClaimedLane
) -> None:
    commit(store, owned, shown(0), clicked(1, "x"))
    gone = commit(store, owned, shown(2, "x", first_rank=4), *leaping(LONG_AFTER_MS))
    assert (open_keys(gone), list(gone.unlinked)[:1]) == ([], ["open:1"])
    assert claimed(store, "t2").lane.open.next_slot == 1


def needed(store: MemoryLane, owned: ClaimedLane) -> set[str]:
    """The keys that a rebuild reads, and no others."""
    blocks = {f"open:{entry.number}" for entry in head_of(store.fields).state.blocks}
    pages = {
        CLICKS.pane(owned.lane.plan.timing, key, page)
        for key, rows in owned.lane.panes.items()
        for page, page_rows in rows.pages.items()
        if page_rows.any()
    }
    totals_pages = {
        totals_key(page) for page, rows in owned.lane.totals.pages.items() if rows.any()
    }
    past = {key for key in store.blobs if key.startswith(CLICKS.hours)}
    kept = kept_rows.kept_from(owned.lane.settled_before or 0, owned.lane.plan)
    past = {key for key in past if CLICKS.of_hour(key)[0] >= kept}
    return blocks | pages | totals_pages | past | ({ADMITTED_KEY, LAYOUTS_KEY} & store.blobs.keys())


@pytest.mark.parametrize("seed", seeds(6))
def test_the_store_contains_what_a_rebuild_needs_and_nothing_else(seed: int) -> None:
    rng = random.Random(seed)
    records = random_records(rng, topics=1, partitions=1, events=400)
    store, decode, plan = MemoryLane(), decoder_of(SMALL_CONFIG), plan_of(SMALL_CONFIG)
    owned, most_blocks = claimed(store, plan=plan, topic="search-events"), 0
    while records:
        size = rng.choice((1, 1, 2, 5, 40))
        part, records = records[:size], records[size:]
        process_batch(owned.lane, {"search-events": [record(r.value) for r in part]}, {}, decode)
        planned = plan_commit(owned)
        assert store.commit(planned) == "applied"
        confirm(owned, planned)
        assert set(store.blobs) == needed(store, owned)
        most_blocks = max(most_blocks, len(owned.log))
    assert 2 <= most_blocks <= 12
    assert rows_of(claimed(store, "t2", plan=plan, topic="search-events").lane) == rows_of(
        owned.lane
    )


# Reading back


def test_a_lane_continues_where_it_was(store: MemoryLane, owned: ClaimedLane) -> None:
    commit(store, owned, shown(0, attributes={"country": "US"}), clicked(1, "a"), clicked(1, "x"))
    commit(store, owned, shown(BASE_MS, of="p"), passing(SETTLES_MS))
    back = claimed(store, "t2")
    settled(back.lane, clicked(2 * BASE_MS, "b", of="p"), passing(SETTLES_MS + BASE_MS))
    assert (totals(back.lane)["impressions"], gains(owned.lane, "p")) == (2, [None, None, None])
    assert totals(back.lane)["RR:sum"] == 1_500_000
    assert row(back.lane, 0, segment="US")["impressions"] == 1
    assert back.lane.counts["feedback_outcomes"]["joined"] == 2


def test_a_lane_that_was_only_claimed_is_empty(store: MemoryLane, owned: ClaimedLane) -> None:
    assert (owned.lane.offsets, owned.lane.watermark_ms, owned.sequence) == ({"events": 0}, None, 0)
    assert (len(owned.lane.open), owned.log, owned.lane.segments.names) == (0, [], [(0, "all")])


def test_a_new_owner_commits_under_its_own_token(store: MemoryLane, owned: ClaimedLane) -> None:
    settled(owned.lane, shown(0))
    old = plan_commit(owned)
    back = claimed(store, "t2")
    assert store.commit(old) == "lost"
    assert commit(store, back, shown(0)).token == "t2"


def test_slots_and_serials_are_never_reused(store: MemoryLane, owned: ClaimedLane) -> None:
    commit(store, owned, shown(0), clicked(1, "x"))
    commit(store, owned, *leaping(LONG_AFTER_MS))
    back = claimed(store, "t2")
    assert (back.lane.open.next_slot, back.lane.waiting.next_serial) == (1, 1)
    assert (back.next_slot, back.next_serial, len(back.lane.open)) == (1, 1, 0)


def earlier(store: MemoryLane, owned: ClaimedLane, *events: Event) -> None:
    """A block too large to be merged into, so that what comes then changes it from outside."""
    commit(store, owned, *events, *(shown(0, of=f"filler{n}") for n in range(9)))


def test_a_list_that_grew_later_is_read_back_long(store: MemoryLane, owned: ClaimedLane) -> None:
    earlier(store, owned, shown(0, "a"))
    commit(store, owned, shown(1, "b", first_rank=2), judged(2, "b", 3))
    back = claimed(store, "t2").lane
    assert (len(owned.log), items(back), gains(back)) == (2, ["a", "b"], [None, 3])
    assert back.open.grades == owned.lane.open.grades


def test_feedback_that_joined_later_waits_no_more(store: MemoryLane, owned: ClaimedLane) -> None:
    earlier(store, owned, clicked(1, "a"), clicked(1, "nowhere"))
    commit(store, owned, shown(0))
    back = claimed(store, "t2").lane
    assert (len(owned.log), list(back.waiting.by_serial)) == (2, [1])
    assert back.waiting.by_serial[1].bound_ms == START_MS


def test_expired_content_of_a_kept_block_stays_expired(
    store: MemoryLane, owned: ClaimedLane
) -> None:
    commit(store, owned, shown(0, "a"), clicked(1, "x"), shown(5 * BASE_MS, of="p"))
    commit(store, owned, passing(SETTLES_MS + 5_002))
    back = claimed(store, "t2").lane
    assert (back.open.slots_of("q"), back.open.slots_of("p")) == ((), (1,))
    assert (len(back.waiting), back.counts["feedback_outcomes"]["off_list"]) == (0, 1)


def test_admission_continues_where_it_was(store: MemoryLane, owned: ClaimedLane) -> None:
    full = [shown(0, of=f"q{n}", attributes={"country": f"c{n}"}) for n in range(11)]
    commit(store, owned, *full[:10])
    back = claimed(store, "t2")
    commit(store, back, full[10])
    assert back.lane.counts["segment_overflow"] == {"country": 1}


@pytest.mark.parametrize(
    "part", ["open:1", PAGE, CLICKS.pane(PLAN.timing, (1, START_MS), 0), totals_key(0)]
)
def test_a_missing_part_is_an_error(store: MemoryLane, owned: ClaimedLane, part: str) -> None:
    commit(store, owned, shown(0), shown(9 * BASE_MS, of="p"), passing(SETTLES_MS))
    del store.blobs[part]
    with pytest.raises(Damaged, match=part):
        claimed(store, "t2")


def test_a_missing_name_is_an_error(store: MemoryLane, owned: ClaimedLane) -> None:
    commit(store, owned, shown(0))
    store.names.clear()
    with pytest.raises(Damaged, match="1"):
        claimed(store, "t2")


def test_a_part_of_another_encoding_is_an_error(store: MemoryLane, owned: ClaimedLane) -> None:
    commit(store, owned, shown(0))
    store.names["1"] = b'{"name":"US"}'
    with pytest.raises(Damaged):
        claimed(store, "t2")


# The head


def test_a_head_comes_back(owned: ClaimedLane) -> None:
    settled(owned.lane, shown(0), passing(1))
    fields = {**plan_commit(owned, 77).fields, "token": b"t", "sequence": b"4"}
    fields |= {"keys": b"3", "names": b"1", "start": b'{"events":0}'}
    head = head_of(fields)
    assert (head.token, head.sequence, head.idle_ms, head.offsets) == ("t", 4, 77, {"events": 0})
    assert head.watermarks == {"events": START_MS + 1}
    assert head.counts["impression_outcomes"] == {"accepted": 1}
    assert (head.state.next_slot, head.state.names, len(head.state.blocks)) == (1, 2, 1)


@pytest.mark.parametrize("gone", ["watermarks", "counts", "state", "keys", "names"])
def test_a_head_without_what_every_commit_writes_is_damaged(owned: ClaimedLane, gone: str) -> None:
    fields = {**plan_commit(owned).fields, "token": b"t", "sequence": b"4"}
    fields |= {"keys": b"3", "names": b"1"}
    del fields[gone]
    with pytest.raises(Damaged, match=gone):
        head_of(fields)


def test_a_head_that_was_only_claimed_has_defaults() -> None:
    head = head_of({"token": b"t", "sequence": b"0", "offsets": b'{"events":3}'})
    assert head == Head("t", 0, {"events": 3})
    assert head.state == WriterState()


@pytest.mark.parametrize("gone", ["token", "sequence", "offsets"])
def test_a_head_without_its_fields_is_none(gone: str) -> None:
    fields = {"token": b"t", "sequence": b"0", "offsets": b"{}"}
    with pytest.raises(Damaged, match=gone):
        head_of({name: value for name, value in fields.items() if name != gone})


@pytest.mark.parametrize(
    ("name", "value"), [("sequence", b"x"), ("offsets", b"["), ("counts", b"7"), ("idle", b"now")]
)
def test_a_head_of_other_values_is_none(name: str, value: bytes) -> None:
    with pytest.raises(Damaged):
        head_of({"token": b"t", "sequence": b"0", "offsets": b"{}", name: value})


@pytest.mark.parametrize(
    ("key", "parts"),
    [
        (CLICKS.pane(PLAN.timing, (0, 10_000), 3), ((0, 10_000), 3)),
        (CLICKS.pane(PLAN.timing, (1, -10_000), 0), ((1, -10_000), 0)),
    ],
)
def test_a_key_that_readers_follow_is_read_back(
    key: str, parts: tuple[tuple[int, int] | None, int]
) -> None:
    assert CLICKS.of_pane(PLAN.timing, key) == parts


def test_a_key_of_a_window_that_is_not_configured_is_no_key_of_a_pane() -> None:
    assert CLICKS.of_pane(PLAN.timing, "rows:7:10000:0") is None


def test_names_are_by_segment_id_and_the_whole_is_always_there() -> None:
    stored = {"2": b'[1,"DE"]', "1": b'[1,"all"]', "3": b'[2,"later"]'}
    assert names_of(stored, 3) == [(0, "all"), (1, "all"), (1, "DE")]
    assert names_of({}, 1) == [(0, "all")]


def test_a_claim_reads_only_hours_that_may_still_change() -> None:
    plan = plan_with(history_hours=840)
    store, hour = MemoryLane(), plan.hour_ms
    owned = claimed(store, plan=plan)
    for number in range(5):
        commit(store, owned, *leaping(number * hour), shown(number * hour, of=f"q{number}"))
    past = sorted(key for key in store.blobs if key.startswith(CLICKS.hours))
    first = START_MS // hour * hour
    assert past == [CLICKS.hour(first + number * hour, 0) for number in range(4)]
    (read,) = (key for key in blob_keys(head_of(store.fields), past) if key in past)
    assert CLICKS.of_hour(read)[0] == kept_rows.open_hour(owned.lane.settled_before or 0, plan)


@pytest.mark.parametrize("new_owner", [False, True])
@pytest.mark.parametrize("leap_hours", [1, 3, 1000])
def test_only_stored_pages_are_unlinked(new_owner: bool, leap_hours: int) -> None:
    """Of panes and of hours that are no longer kept, whichever owner stored them."""
    plan, store = plan_with(history_hours=4, max_segments=100), MemoryLane()
    owned, hour = claimed(store, plan=plan), plan.hour_ms
    for number in range(5):
        many = (f"c{number}-{n}" for n in range(PAGE_ROWS))
        arrived = [shown(number * hour, of=c, attributes={"country": c}) for c in many]
        commit(store, owned, *leaping(number * hour), *arrived)
    if new_owner:
        owned = claimed(store, "t2", plan=plan)
    stored = set(store.blobs)
    over = commit(store, owned, *leaping((4 + leap_hours) * hour))
    assert {key for key in over.unlinked if not key.startswith("open:")} <= stored
    left = {CLICKS.of_hour(key)[0] for key in store.blobs if key.startswith(CLICKS.hours)}
    assert left == owned.lane.stored_hours.keys() | owned.lane.hours.keys()
    first = kept_rows.kept_from(owned.lane.settled_before or 0, plan)
    assert min(left, default=first) >= first and bool(left) == (leap_hours < 4)
