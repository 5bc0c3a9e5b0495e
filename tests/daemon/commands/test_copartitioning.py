"""Feedback is counted by whether it lies where its impression does, if the sample has both."""

import json
from types import SimpleNamespace

from relevanced.daemon.commands.copartitioning import LONG_BYTES, Places
from relevanced.daemon.events import Limits, decoder
from relevanced.daemon.worker import JOIN_US
from tests.builders import START_MS

WINDOW_MS = 60_000


def record(partition: int, id_: str, **more: object) -> SimpleNamespace:
    event = {"impression_id": id_, "timestamp": START_MS, **more}
    value = json.dumps(event).encode()
    return SimpleNamespace(topic="t", partition=partition, timestamp=-1, value=value)


def shown(partition: int, id_: str, **more: object) -> SimpleNamespace:
    return record(partition, id_, **{"type": "impression", "items": ["a"], **more})


def counts(places: Places) -> tuple[int, int]:
    look = places.look()
    return look.looked, look.found


def seen(partition: int, id_: str, at_s: int, item: str = "a") -> SimpleNamespace:
    at_ms = START_MS + 1000 * at_s
    return shown(partition, id_, items=[item], timestamp=at_ms, user_id="v")


def touched(partition: int, at_s: int) -> SimpleNamespace:
    more = {"impression_id": None, "user_id": "v", "timestamp": START_MS + 1000 * at_s}
    return record(partition, "", type="feedback", kind="click", item="a", **more)


def clicked(partition: int, id_: str) -> SimpleNamespace:
    return record(partition, id_, type="feedback", kind="click", item="a")


def test_feedback_counts_where_its_impression_was_seen() -> None:
    places = Places(WINDOW_MS)
    places.add(decoder("native", Limits()), [clicked(1, "p"), clicked(0, "q"), clicked(0, "none")])
    bad = SimpleNamespace(topic="t", partition=0, timestamp=-1, value=b"{")
    places.add(decoder("native", Limits()), [shown(0, "p"), shown(0, "q"), bad])
    assert counts(places) == (2, 1)


def test_feedback_by_last_touch_counts_where_the_latest_list_was_seen() -> None:
    """A lane that has an older list only would join it to that, and nothing would show it."""
    decode = decoder("native", Limits(join="last_touch"))

    def looked(feedback_s: int) -> tuple[int, int]:
        places = Places(WINDOW_MS)
        places.add(decode, [seen(0, "old", 0), seen(1, "new", 20), seen(1, "other", 30, "b")])
        places.add(decode, [touched(0, feedback_s)])
        return counts(places)

    assert looked(10) == (1, 0), "the one before it"
    assert looked(19) == (1, 0) and looked(20) == (1, 1)
    assert looked(-5) == (1, 0) and looked(-6) == (0, 0), "clocks differ by as much"
    assert looked(80) == (1, 1) and looked(81) == (0, 0), "the window of attribution"


def test_a_look_says_what_the_traffic_takes() -> None:
    """By the times of records in Kafka, whatever part of each log was read."""
    places = Places(WINDOW_MS)
    for partition, step_ms in ((0, 1), (1, 4)):
        times = range(START_MS, START_MS + 400, step_ms)
        records = [shown(partition, f"q{at}") for at in times]
        for record_, at in zip(records, times, strict=True):
            record_.timestamp = at
        places.add(decoder("native", Limits()), records)
    assert places.look().cores > 1_250 * JOIN_US / 1e6


def test_long_records_are_left_out() -> None:
    places = Places(WINDOW_MS)
    long = shown(0, "p", query="x" * LONG_BYTES)
    places.add(decoder("native", Limits()), [long, clicked(1, "p")])
    assert counts(places) == (0, 0)
