"""A lane's watermark, the changes of a batch, and the tables that forget what is unused."""

import pytest

from relevanced.daemon.lane import COUNT_FAMILIES
from tests.builders import SETTLE_MS, feed, lane_of, settled, shown


@pytest.mark.parametrize(
    ("first", "second", "watermark"), [(None, None, None), (5, None, None), (5, 3, 3), (3, 5, 3)]
)
def test_the_watermark_is_the_least_of_the_topics(
    first: int | None, second: int | None, watermark: int | None
) -> None:
    lane = lane_of("searches", "clicks")
    lane.watermarks = {"searches": first, "clicks": second}
    assert lane.watermark_ms == watermark


def test_a_watermark_of_0_is_a_watermark() -> None:
    lane = lane_of()
    lane.watermarks["events"] = 0
    assert lane.watermark_ms == 0


def test_a_new_lane_is_empty_and_has_its_offsets() -> None:
    lane = lane_of("searches", "clicks")
    assert lane.offsets == {"searches": 0, "clicks": 0}
    assert (len(lane.open), len(lane.waiting), lane.panes, lane.settled_before) == (0, 0, {}, None)
    assert set(lane.counts) == set(COUNT_FAMILIES)
    assert not lane.totals.pages


def test_lanes_share_nothing() -> None:
    one, other = lane_of(), lane_of()
    feed(one, shown(0))
    assert (len(other.open), len(other.changes.panes), other.counts["events"].total()) == (0, 0, 0)


def test_a_change_is_noted_in_all_four_columns() -> None:
    lane = lane_of()
    lane.changes.add(10, 3, 0, 7)
    changes = lane.changes
    assert [list(c) for c in (changes.panes, changes.combinations)] == [[10], [3]]
    assert [list(c) for c in (changes.before, changes.after)] == [[0], [7]]


def test_a_new_batch_has_changed_nothing() -> None:
    lane = lane_of()
    feed(lane, shown(0))
    lane.count("gap_records", "events", 3)
    lane.start_batch()
    assert not len(lane.changes.panes) and not lane.admissions["events"].changed
    assert lane.counts["gap_records"] == {"events": 3}
    assert len(lane.open) == 1


def test_combinations_are_forgotten_with_their_impressions() -> None:
    lane = lane_of()
    settled(lane, shown(0, of="q1", attributes={"country": "de"}))
    settled(lane, shown(2 * SETTLE_MS, of="q2", attributes={"country": "fr"}))
    lane.start_batch()
    in_fr = lane.segments.combinations[1]
    lane.forget_unused_combinations()
    assert lane.segments.combinations == [in_fr]
    assert lane.open.combinations[-1] == 0
    feed(lane, shown(2 * SETTLE_MS, of="q3", attributes={"country": "fr"}))
    assert lane.segments.combinations == [in_fr]
