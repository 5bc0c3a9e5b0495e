"""Records to read, valid and damaged: examples, and hypothesis strategies over them."""

import json
from datetime import datetime, timedelta, timezone
from typing import Final

from hypothesis import strategies as st

from relevanced.daemon.events import (
    DROP_REASONS,
    REJECTION_REASONS,
    SKIP_REASONS,
    Decoded,
    Rejected,
)

NOON_MS: Final = 1_795_176_000_000
IMPRESSION: Final[dict[str, object]] = {
    "type": "impression",
    "impression_id": "q1",
    "timestamp": "2026-11-20T12:00:00.000Z",
    "query": "running shoes",
    "items": ["d3", "d7"],
    "first_rank": 1,
    "attributes": {"country": "US", "device": "ios"},
    "experiments": {"ranker-v2": "treatment"},
    "user_id": "u9",
    "grades": {"d3": 2},
}
FEEDBACK: Final[dict[str, object]] = {
    "type": "feedback",
    "impression_id": "q1",
    "timestamp": NOON_MS + 5000,
    "kind": "click",
    "item": "d7",
    "rank": 2,
    "grade": None,
}
GONE: Final = object()
"""Stands for a member that is taken out."""

json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(st.characters(codec=None)),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=6,
)
ids = st.text(min_size=1, max_size=90) | st.sampled_from(["é" * 128, "😀" * 64]) | st.integers()
zones = st.integers(-23 * 60, 23 * 60).map(lambda east: timezone(timedelta(minutes=east)))
timestamps = (
    st.integers(0, 10**17 - 1)
    | st.floats(0, 1e16)
    | st.datetimes(datetime(1970, 1, 2), datetime(5138, 1, 1), timezones=zones).map(
        lambda moment: moment.isoformat()
    )
)
texts = st.dictionaries(st.text(max_size=64), st.text(max_size=90), max_size=3)
good_impressions = st.fixed_dictionaries(
    {"impression_id": ids, "timestamp": timestamps, "items": st.lists(ids, max_size=8)},
    optional={
        "first_rank": st.none() | st.integers(1, 9),
        "attributes": st.none() | texts,
        "experiments": st.none() | texts,
        "grades": st.none()
        | st.dictionaries(st.text(min_size=1, max_size=64), st.floats(-9, 3) | st.integers(-9, 3)),
        "user_id": st.none() | ids,
        "query": st.text() | st.lists(st.integers() | st.booleans(), max_size=3),
    },
).map(lambda members: {"type": "impression"} | members)
good_feedback = st.fixed_dictionaries(
    {"impression_id": ids, "timestamp": timestamps, "kind": st.text(max_size=90), "item": ids},
    optional={
        "rank": st.none() | st.integers(-(2**63) + 1, 2**63 - 1),
        "grade": st.none() | st.floats(-9, 3) | st.integers(-9, 3),
    },
).map(lambda members: {"type": "feedback"} | members)


def as_bytes(record: dict[str, object], **changes: object) -> bytes:
    """The record as JSON, with members changed, added or taken out."""
    members = {name: value for name, value in (record | changes).items() if value is not GONE}
    return json.dumps(members).encode()


@st.composite
def damaged(draw: st.DrawFn, *good: dict[str, object]) -> bytes:
    """A valid record with some members replaced, and perhaps cut, cross-bred or in an array."""
    record = dict(draw(st.sampled_from(good)))
    for name in draw(st.lists(st.sampled_from(sorted(record)), max_size=3)):
        record[name] = draw(json_values | st.just(GONE))
    value = bytearray(as_bytes(record))
    for _ in range(draw(st.sampled_from((0, 0, 0, 1, 3)))):
        value[draw(st.integers(0, len(value) - 1))] = draw(st.integers(0, 255))
    value = value[: draw(st.sampled_from((len(value), len(value), len(value) // 2)))]
    return b"[" + bytes(value) + b",1]" if draw(st.booleans()) else bytes(value)


def check_verdicts(verdicts: list[Decoded]) -> None:
    for verdict in verdicts:
        if isinstance(verdict, Rejected):
            assert verdict.reason in REJECTION_REASONS + SKIP_REASONS + DROP_REASONS
            assert verdict.skipped or verdict.detail
        else:
            assert verdict.time_ms >= 0
