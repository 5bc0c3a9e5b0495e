"""From where a lost Redis would be filled again, and what would be missing then."""

import pytest

from relevanced.daemon.config import Ago, LogEnd, Start
from relevanced.daemon.kafka import numbers_in
from relevanced.daemon.worker import Needed, Retention, rebuilt_from_ms, rebuilt_ms, shortfalls

HOUR_MS = 3_600_000
DAY_MS = 24 * HOUR_MS
NEEDED = Needed(35 * DAY_MS, HOUR_MS // 2)
NOW_MS = 1_795_176_000_000


def kept(ms: int | None) -> dict[str, Retention]:
    return {"events": Retention(ms, "retention.ms")}


@pytest.mark.parametrize(
    ("start", "topic_ms", "reach_ms"),
    [
        (LogEnd.EARLIEST, None, None),
        (LogEnd.EARLIEST, 7 * DAY_MS, 7 * DAY_MS),
        (Ago(DAY_MS), 7 * DAY_MS, DAY_MS),
        (Ago(9 * DAY_MS), 7 * DAY_MS, 7 * DAY_MS),
        (Ago(DAY_MS), None, DAY_MS),
        (LogEnd.LATEST, None, 0),
    ],
)
def test_a_loss_is_filled_from_the_later_of_start_and_retention(
    start: Start, topic_ms: int | None, reach_ms: int | None
) -> None:
    assert rebuilt_ms(start, kept(topic_ms)) == reach_ms


def test_what_would_be_missing_is_said_with_the_way_out() -> None:
    assert shortfalls(LogEnd.EARLIEST, kept(None), NEEDED) == []
    assert shortfalls(LogEnd.EARLIEST, kept(35 * DAY_MS), NEEDED) == []
    assert shortfalls(LogEnd.EARLIEST, {}, NEEDED) == [], "nobody says how long topics keep records"
    (by_start,) = shortfalls(Ago(DAY_MS), kept(7 * DAY_MS), NEEDED)
    assert "the last 24 h only, not from history.days (35 days)" in by_start
    assert 'set kafka.start = "earliest"' in by_start
    (by_topic,) = shortfalls(LogEnd.EARLIEST, kept(7 * DAY_MS), NEEDED)
    assert "the last 7 days only" in by_topic and "raise the retention of the topics" in by_topic


def test_a_topic_that_forgets_open_impressions_is_named() -> None:
    found = shortfalls(LogEnd.EARLIEST, kept(HOUR_MS // 4), NEEDED)
    assert len(found) == 2 and found[1].startswith("topic events keeps 15 min (retention.ms)")


@pytest.mark.parametrize(
    ("start", "first_ms", "from_ms"),
    [
        (LogEnd.LATEST, 5, NOW_MS),
        (LogEnd.EARLIEST, 5, 5),
        (Ago(DAY_MS), 5, NOW_MS - DAY_MS),
        (Ago(DAY_MS), NOW_MS - HOUR_MS, NOW_MS - HOUR_MS),
    ],
)
def test_a_lane_is_rebuilt_from_where_start_and_all_of_its_logs_begin(
    start: Start, first_ms: int, from_ms: int
) -> None:
    assert rebuilt_from_ms(start, {"clicks": 0, "events": first_ms}, NOW_MS) == from_ms
    assert rebuilt_from_ms(start, {}, NOW_MS) == NOW_MS or isinstance(start, Ago)


def test_a_topic_whose_settings_are_refused_has_no_limits() -> None:
    entries = [("retention.ms", "-1", False, 5, False), ("retention.bytes", "7", False, 5, False)]
    answers = [(0, "", 2, "events", entries), (29, "denied", 2, "clicks", [])]
    assert numbers_in(answers, ("retention.ms", "retention.bytes")) == {
        "events": {"retention.ms": -1, "retention.bytes": 7}
    }
