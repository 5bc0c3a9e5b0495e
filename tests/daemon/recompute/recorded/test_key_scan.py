"""Keys that are found in the bytes of lines are those that a decoder finds, and only lines of the
plainest shape have any."""

import json
from collections.abc import Sequence
from typing import Final

import numpy as np
import pytest
from hypothesis import given, strategies as st

from relevanced.daemon.events import (
    TIMED_DECODER,
    Event,
    Feedback,
    Limits,
    Rejected,
    TimedFeedback,
    decoder,
    timestamp_ms,
)
from relevanced.daemon.recompute.files import plain_keys
from tests.daemon.events.records import FEEDBACK, IMPRESSION
from tests.fuzz.hostile import as_object, records
from tests.fuzz.settings import examples

TIME_MS: Final = 1_795_176_000_123
SHOWN: Final = {"type": "impression", "impression_id": "q1", "timestamp": TIME_MS, "items": ["a"]}
CLICK: Final = {"type": "feedback", "impression_id": "q1", "timestamp": TIME_MS, "kind": "click"}
PLAIN: Final = [
    b'{"type":"impression","impression_id":"q1","timestamp":1795176000123,"items":["d3","d7"]}',
    b'{"timestamp":1000000000000,"items":["t","times","ty"],"type":"impression"}',
    b'{"type":"feedback","impression_id":"\xc3\xa9","item":"a","timestamp":9999999999999}',
    b'{"type": "feedback", "impression_id": "q1", "timestamp": 1795176000124, "kind": "t"}',
]
NOT_PLAIN: Final = [
    b'{"type":"feedback","type":"impression","timestamp":1795176000123}',
    b'{"type":"feedback","timestamp":1795176000123,"timestamp":1795176000124}',
    b'{"type":"feedback","timestamp":1795176000123,"\\u0074imestamp":1795176000124}',
    b'{"type":"feedback","timestamp":1795176000123,"timestamp" :1795176000124}',
    b'{"type":"feedback","timestamp":1795176000123,"attributes":{"timestamp":"x"}}',
    b'{"type":"feedback","timestamp":1795176000123,"items":["type"]}',
    b'{"type":"feedback","timestamp":1795176000123,"items":[{"type":"impression"}]}',
    b'{"type":"feedback","timestamp":1795176000123,"kind":"\\""}',
    b'{"type" :"feedback","timestamp":1795176000123}',
    b'{"type":  "feedback","timestamp":1795176000123}',
    b'{"type":"feedback","timestamp":\t1795176000123}',
    b'{"type":"feedback","timestamp":1795176000123 }',
    b'{"type":"feedback","timestamp":1795176000.123}',
    b'{"type":"feedback","timestamp":1795176000123.5}',
    b'{"type":"feedback","timestamp":1795176000123e1}',
    b'{"type":"feedback","timestamp":179517600012}',
    b'{"type":"feedback","timestamp":17951760001234}',
    b'{"type":"feedback","timestamp":0795176000123}',
    b'{"type":"feedback","timestamp":-795176000123}',
    b'{"type":"feedback","timestamp":"2026-11-20T12:00:00Z"}',
    b'{"type":"feedback","timestamps":1795176000123}',
    b'{"type":"other","timestamp":1795176000123}',
    b'{"type":"impression","timestamp":',
    b'{"type":"feedback"}',
    b'"timestamp":1795176000123,"type":',
    b'"timestamp":1795176000123,"type"',
    b"",
]
MEMBERS: Final = [
    *(b'"type":"impression"', b'"type": "feedback"', b'"type" :"feedback"', b'"type":"other"'),
    *(b'"timestamp":1795176000123', b'"timestamp": 1795176000124', b'"timestamp":1795176000.5'),
    *(b'"timestamp":"2026-11-20T12:00:00Z"', b'"\\u0074ype":"feedback"', b'"times":1'),
    *(b'"impression_id":"q\xc3\xa9"', b'"items":["a","timestamp"]', b'"items":["t","ty"]'),
    *(b'"kind":"click"', b'"item":"a"', b'"user_id":"\\"type\\":"', b'"kind":"type"'),
    *(b'"attributes":{"type":"feedback"}', b'"grades":{"timestamp":1795176000125}'),
    *(b'"experiments":{"a":"timestamp"}', b'"attributes":{"country":"\xff"}', b'"items":[]'),
]

compact = st.sampled_from([SHOWN, CLICK, IMPRESSION, FEEDBACK]).map(
    lambda record: json.dumps(record | {"timestamp": TIME_MS}, separators=(",", ":")).encode()
)
of_members = st.lists(st.sampled_from(MEMBERS), max_size=7).map(
    lambda members: b"{" + b",".join(members) + b"}"
)
hostile = records((IMPRESSION, FEEDBACK)).map(lambda line: line.replace(b"\n", b" "))
lines_of_any_kind = st.sampled_from([*PLAIN, *NOT_PLAIN]) | compact | of_members | hostile
DECODE: Final = decoder("native", Limits())


def keys_of(lines: Sequence[bytes]) -> list[int] | None:
    text = b"\n".join(lines)
    keys = plain_keys(text, np.flatnonzero(np.frombuffer(text, np.uint8) == ord("\n")))
    return None if keys is None else keys.tolist()


def assert_as_decoded(line: bytes, key: int) -> None:
    """The key is that of the event on a line, if it has one."""
    try:
        timed = TIMED_DECODER.decode(line)
        assert key == timestamp_ms(timed.timestamp) * 2 + isinstance(timed, TimedFeedback)
    except (ValueError, RecursionError):
        pass
    events: list[Event] = [one for one in DECODE(line, None) if not isinstance(one, Rejected)]
    for event in events:
        assert key == event.time_ms * 2 + isinstance(event, Feedback)


@examples(1000)
@given(st.lists(compact | of_members, min_size=1, max_size=2) | st.lists(lines_of_any_kind))
def test_keys_are_those_of_the_decoder(lines: list[bytes]) -> None:
    for some in (lines, *([line] for line in lines)):
        keys = keys_of(some)
        if keys is not None:
            for line, key in zip(some or [b""], keys, strict=True):
                assert_as_decoded(line, key)


@examples(300)
@given(st.sampled_from([*PLAIN, *NOT_PLAIN]), st.integers(0, 100), st.integers(1, 3), st.binary())
def test_damaged_lines_too(line: bytes, at: int, cut: int, put: bytes) -> None:
    damaged = (line[:at] + put + line[at + cut :]).replace(b"\n", b"")
    keys = keys_of([damaged])
    if keys is not None:
        assert_as_decoded(damaged, keys[0])


def test_plain_lines_have_keys() -> None:
    expected = [2 * TIME_MS, 2 * 10**12, 2 * (10**13 - 1) + 1, 2 * (TIME_MS + 1) + 1]
    assert keys_of(PLAIN) == expected
    assert [keys_of([line]) for line in PLAIN] == [[key] for key in expected]


@given(st.integers(10**12, 10**13 - 1), st.sampled_from([SHOWN, CLICK]))
def test_every_time_is_read_to_the_millisecond(time_ms: int, record: dict[str, object]) -> None:
    line = json.dumps(record | {"timestamp": time_ms}).encode()
    assert keys_of([line]) == [2 * time_ms + (record is CLICK)]


@pytest.mark.parametrize("line", NOT_PLAIN)
def test_others_are_left_to_the_decoder(line: bytes) -> None:
    assert keys_of([line]) is None
    for before, after in (([], PLAIN), (PLAIN, []), (PLAIN, PLAIN)):
        assert keys_of([*before, line, *after]) is None


def test_a_name_that_one_line_has_twice_and_another_not() -> None:
    twice = as_object([(b'"type"', b'"feedback"'), (b'"timestamp"', b"1795176000123")] * 2)
    assert keys_of([twice, b"{}"]) is None
    assert keys_of([PLAIN[0], b"{}", twice]) is None
