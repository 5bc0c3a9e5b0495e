"""Feedback is counted by whether it lies where its impression does, if the sample has both."""

import json
from types import SimpleNamespace

from relevanced.daemon.commands.first_look import LONG_BYTES, Places
from relevanced.daemon.events import Limits, decoder
from tests.builders import START_MS


def record(partition: int, id_: str, **more: object) -> SimpleNamespace:
    event = {"impression_id": id_, "timestamp": START_MS, **more}
    return SimpleNamespace(partition=partition, timestamp=-1, value=json.dumps(event).encode())


def shown(partition: int, id_: str, **more: object) -> SimpleNamespace:
    return record(partition, id_, type="impression", items=["a"], **more)


def clicked(partition: int, id_: str) -> SimpleNamespace:
    return record(partition, id_, type="feedback", kind="click", item="a")


def test_feedback_counts_where_its_impression_was_seen() -> None:
    places = Places()
    places.add(decoder("native", Limits()), [clicked(1, "p"), clicked(0, "q"), clicked(0, "none")])
    bad = SimpleNamespace(partition=0, timestamp=-1, value=b"{")
    places.add(decoder("native", Limits()), [shown(0, "p"), shown(0, "q"), bad])
    assert places.counts() == (2, 1)


def test_long_records_are_left_out() -> None:
    places = Places()
    long = shown(0, "p", query="x" * LONG_BYTES)
    places.add(decoder("native", Limits()), [long, clicked(1, "p")])
    assert places.counts() == (0, 0)
