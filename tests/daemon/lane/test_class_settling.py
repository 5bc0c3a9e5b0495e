"""When files of classes come into use in a lane, and when they leave it."""

from relevanced.daemon.judgements import (
    NOTHING_READ,
    DatedFiles,
    IndexEntry,
    QueryClasses,
    Timeline,
    prepared,
)
from relevanced.daemon.lane import Lane, latest_ms
from relevanced.daemon.queries import Derivation
from relevanced.daemon.worker import batch
from tests.builders import (
    BASE_MS,
    LATENESS_MS,
    SETTLE_MS,
    START_MS,
    TOPIC,
    lane_of,
    leaping,
    passing,
    plan_with,
    settled,
    shown,
)
from tests.replica import rows_of

TRAFFIC = Derivation("traffic", by_files=True, unlisted="tail")
PLAN = plan_with(groupings=(("traffic",),), max_segments=9, derivations=(TRAFFIC,))
NEXT_MS = 10 * BASE_MS
FIRST, SECOND = IndexEntry(START_MS, "first", "1"), IndexEntry(START_MS + NEXT_MS, "second", "2")
CLASSES = {FIRST: QueryClasses({"shoes": "head"}), SECOND: QueryClasses({"shoes": "torso"})}


def lane_with(*entries: IndexEntry) -> Lane:
    lane = lane_of(TOPIC, plan=PLAN)
    files(lane).prepare(Timeline(entries), CLASSES)
    return lane


def files(lane: Lane) -> DatedFiles[QueryClasses]:
    return lane.class_files["traffic"]


def took(lane: Lane, *events: object) -> None:
    batch.begin(lane)
    settled(lane, *events)


def segments(lane: Lane) -> dict[str, int]:
    """Segment → impressions of the longest window."""
    return {
        segment: row["impressions"]
        for (window_s, _, grouping, segment), row in rows_of(lane).items()
        if window_s == 3600 and grouping == "traffic"
    }


def search(at_ms: int, of: str, query: str = "Shoes") -> object:
    return shown(at_ms, of=of, query=query)


def test_late_impression_has_the_class_that_was_in_force_at_its_time() -> None:
    lane = lane_with(FIRST, SECOND)
    before_ms, settles_ms = NEXT_MS - 1, NEXT_MS + SETTLE_MS
    took(lane, search(NEXT_MS, "a"), passing(NEXT_MS + LATENESS_MS + BASE_MS))
    took(lane, passing(settles_ms - 1))
    took(lane, search(before_ms, "b"), search(before_ms, "c", "hats"))
    assert segments(lane) == {"torso": 1, "head": 1, "tail": 1}
    assert files(lane).timeline == Timeline((FIRST, SECOND))
    took(lane, passing(settles_ms))
    assert files(lane).timeline == Timeline((SECOND,))
    took(lane, search(before_ms, "d"))
    assert lane.counts["impression_outcomes"]["late"] == 1
    assert segments(lane) == {"torso": 1, "head": 1, "tail": 1}


def test_accepted_impression_that_is_ahead_of_the_watermark_closes_the_door_to_files() -> None:
    lane = lane_with(FIRST)
    assert latest_ms(lane) == NOTHING_READ
    took(lane, search(0, "a"))
    assert latest_ms(lane) == START_MS
    ahead_ms = NEXT_MS + 400_000
    took(lane, search(ahead_ms, "b"), search(1, "c"))
    assert lane.watermark_ms == START_MS + 1 and latest_ms(lane) == START_MS + ahead_ms
    timeline = files(lane).timeline
    assert timeline is not None
    found = prepared(timeline, (FIRST, SECOND), CLASSES, latest_ms(lane)).timeline
    assert found == Timeline((FIRST,), refused=(SECOND,))


def test_latest_event_stays_known_once_its_impression_is_open_no_more() -> None:
    lane = lane_with(FIRST)
    took(lane, search(7, "a"))
    took(lane, *leaping(5_000_000))
    assert not len(lane.open) and latest_ms(lane) > START_MS + 4_000_000


def test_lane_without_files_gives_no_class() -> None:
    lane = lane_of(TOPIC, plan=PLAN)
    assert not lane.has_its_files
    took(lane, search(0, "a"))
    assert segments(lane) == {"(none)": 1}
    files(lane).prepare(Timeline((FIRST,)), CLASSES)
    assert lane.has_its_files
    took(lane, search(0, "b"))
    assert segments(lane) == {"(none)": 1, "head": 1}
