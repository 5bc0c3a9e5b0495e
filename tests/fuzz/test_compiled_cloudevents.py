"""CloudEvents are read by the compiled form as by the interpreter, in both modes."""

import base64
import json
import os
import random
from typing import Any, Final

import pytest

from relevanced.daemon.mapping import reason_to_interpret
from tests.daemon.mapping.preset_records import NOON_MS
from tests.daemon.mapping.sources import mapper_of
from tests.fuzz.mutations import mutated
from tests.fuzz.settings import FACTOR
from tests.fuzz.test_compiled import (
    CHUNK,
    LIMITS,
    RECORDS,
    SEED,
    assert_one_by_one,
    read_fast,
    read_slowly,
    record_of,
)

AT: Final = b"2026-11-20T12:00:00.250Z"
MAPPER: Final = mapper_of(
    """envelope = "cloudevents"
[sources.impression]
where = "ce('type') == 'com.acme.shown' && header('x-shop') != 'closed'"
id = "id"
time = "ce('time')"
items = "items"
visitor = "ce('subject') || user"
attributes = { country = "country", device = "ce('Device')" }
[sources.feedback]
where = "starts_with(ce('type'), 'com.acme.re')"
id = "id"
time = "ce('time') || at"
kind = "kind"
item = "item"
rank = "rank"
""",
    LIMITS,
)
SHOWN: Final[dict[str, Any]] = {
    "id": "q1",
    "items": ["a", "b", "c"],
    "country": "DE",
    "user": "u1",
    "rest": {"price": 1.5, "text": "\u00fc"},
}
CLICKED: Final[dict[str, Any]] = {"id": "q1", "kind": "click", "item": "a", "rank": 1}
ENVELOPE: Final[dict[str, Any]] = {
    "specversion": "1.0",
    "type": "com.acme.shown",
    "source": "/search",
    "time": AT.decode(),
    "device": "ios",
    "sequence": 7,
}
STRUCTURED: Final[list[Any]] = [
    {**ENVELOPE, "data": SHOWN},
    {**ENVELOPE, "type": "com.acme.reaction", "data": CLICKED},
    {**ENVELOPE, "type": "com.acme.page", "data": {"url": "/"}},
    {**ENVELOPE, "subject": "u2", "data": SHOWN},
]
ODD: Final[list[Any]] = [
    {**ENVELOPE, "data_base64": base64.b64encode(json.dumps(SHOWN).encode()).decode()},
    {**ENVELOPE, "data_base64": "%", "data": SHOWN},
    {**ENVELOPE, "data": None},
    {**ENVELOPE, "subject": 7, "Type": "com.acme.page", "data": SHOWN},
    ENVELOPE,
    SHOWN,
]
"""What the compiled form may leave to the interpreter."""
TYPE: Final = {"structured": b"Application/CloudEvents+JSON; charset=UTF-8"}


def binary_headers(kind: bytes = b"com.acme.shown") -> tuple[tuple[str, bytes], ...]:
    return (("CE_SpecVersion", b"1.0"), ("ce_type", kind), ("ce_time", AT), ("ce_device", b"ios"))


def good() -> list[Any]:
    """Records that need no interpreter."""
    typed = (("Content-Type", TYPE["structured"]),)
    made = [record_of(json.dumps(one).encode(), typed) for one in STRUCTURED]
    made += [record_of(json.dumps(one).encode(), ()) for one in STRUCTURED]
    made.append(record_of(json.dumps(SHOWN).encode(), binary_headers()))
    made.append(record_of(json.dumps(CLICKED).encode(), binary_headers(b"com.acme.reaction")))
    return made


def drawn(rng: random.Random) -> Any:
    """A record of any mode, mostly mutated."""
    stamp = rng.choice((-1, NOON_MS, NOON_MS, NOON_MS - 600_000))
    if rng.random() < 0.4:
        headers = list(binary_headers(rng.choice((b"com.acme.shown", b"com.acme.reaction", b"x"))))
        headers += rng.choice(((), (("x-shop", b"closed"),), (("ce_subject", b"\xff"),)))
        rng.shuffle(headers)
        value = mutated(rng, rng.choice((SHOWN, CLICKED)), [SHOWN, CLICKED])
        return record_of(rng.choice((value, value, value, b"", None)), tuple(headers), stamp)
    typed: Any = rng.choice(((), (("content-type", TYPE["structured"]),)))
    values = STRUCTURED if rng.random() < 0.8 else ODD
    return record_of(mutated(rng, rng.choice(values), [*STRUCTURED, *ODD]), typed, stamp)


def test_any_cloudevents_are_read_as_the_interpreter_reads_them() -> None:
    seed = int(os.environ.get(SEED) or (1 if FACTOR == 1 else random.getrandbits(30)))
    print(f"{SEED}={seed}")
    rng, left, count = random.Random(seed), 0, int(3 * RECORDS * FACTOR)
    for first in range(0, count, CHUNK):
        records = [drawn(rng) for _ in range(CHUNK)]
        events, reasons, slowly = read_fast(MAPPER, records)
        left += slowly
        if (events, reasons) != read_slowly(MAPPER, records):
            assert_one_by_one(MAPPER, records, f"seed {seed}, records from {first} on")
            raise AssertionError(f"seed {seed}: a chunk differs from its records")
    assert left < count * 0.7, "otherwise this compares the interpreter with itself"


def test_good_cloudevents_are_not_left_to_the_interpreter() -> None:
    assert reason_to_interpret(MAPPER.source, LIMITS) is None
    events, _, left = read_fast(MAPPER, good())
    assert (len(events), left) == (8, 0)


@pytest.mark.parametrize("subject", ["é" * 65, "é" * 131, "x" * 5000])
def test_a_long_attribute_is_an_id_where_the_interpreter_says_so(subject: str) -> None:
    structured = json.dumps({**ENVELOPE, "subject": subject, "data": SHOWN}).encode()
    headers = (*binary_headers(), ("ce_subject", subject.encode()))
    for record in (record_of(structured, ()), record_of(json.dumps(SHOWN).encode(), headers)):
        events, reasons, _ = read_fast(MAPPER, [record])
        assert (events, reasons) == read_slowly(MAPPER, [record])


@pytest.mark.parametrize("broken", [b'{"items": ["a"], "id": "q1", "rest": "\xff"}', b'{"id": 1'])
def test_what_no_expression_reads_may_be_broken(broken: bytes) -> None:
    """Data is refused only for what is read of it, or where it is no JSON."""
    envelope = json.dumps({**ENVELOPE, "data": 0}).encode()
    for record in (
        record_of(broken, binary_headers()),
        record_of(envelope.replace(b'"data": 0', b'"data": ' + broken), ()),
    ):
        events, reasons, _ = read_fast(MAPPER, [record])
        assert (events, reasons) == read_slowly(MAPPER, [record])
        assert len(events) == broken.endswith(b"}")


def test_a_record_that_is_too_large_is_refused_though_its_data_is_small() -> None:
    padded = json.dumps({**ENVELOPE, "padding": "x" * LIMITS.max_record_bytes, "data": SHOWN})
    record = record_of(padded.encode(), ())
    events, reasons, _ = read_fast(MAPPER, [record])
    assert (events, reasons) == read_slowly(MAPPER, [record])
    assert events == []
