"""Hostile records: JSON as text, so that it can contain what no JSON writer would write, built from
valid records, which are then cut, mixed and damaged."""

import json
from collections.abc import Mapping, Sequence
from typing import Final

from hypothesis import strategies as st

from tests.daemon.events.records import FEEDBACK, IMPRESSION, json_values

Members = list[tuple[bytes, bytes]]
"""Names and values of an object, as JSON, in order; a name may occur more than once."""

BOM: Final = b"\xef\xbb\xbf"
NESTED: Final = [
    opening * depth + closing * depth
    for opening, closing in ((b"[", b"]"), (b'{"a":[', b"]}"))
    for depth in (3, 600, 20_000)
]
NUMBERS: Final = [
    *(b"1e400", b"-1e400", b"1" + b"0" * 400, b"-1" + b"0" * 4299, b"7" * 5000, b"1e-400"),
    *(b"NaN", b"Infinity", b"-Infinity", b"-0", b"-0.0", b"0.1", b"1.0", b"1", b"01", b"+1"),
    *(b"9223372036854775807", b"9223372036854775808", b"18446744073709551616", b"99999999999.5"),
    *(b"99999999999999", b"100000000000000", b"99999999999999999", b"1795176000000"),
]
TEXTS: Final = [
    *(b'"\\ud800"', b'"\\udfff\\ud800"', b'"\xff\xfe"', b'"\xed\xa0\x80"', b'"\xc3"', b'"\\u0000"'),
    *(b'"a\\nb"', b'"\\r\\t\\u001b[31m"', b'"\\""', b'"\\\\"', b'"a\\\\,b"', b'"}\\n# EOF"'),
    *(b'"\\u00e9"', b'"e\\u0301"', b'"\\ud83d\\ude00"', b'"\\u2028"', b'"a\nb"', b'""', b'"1"'),
    *(b'"all"', b'"other"', b'"(none)"', b'","', b'"' + b"x" * 257 + b'"', b'"\\'),
    b'"' + "é".encode() * 129 + b'"',
    *(b'"2026-11-20T12:00:00Z"', b'"9999-12-31T23:59:59.9+00:00"', b'"0000-00-00T00:00:00Z"'),
]
LISTS: Final = [b"[]", b"{}", b'["d3",3,"3"]', b"[null]", b"[" + b'"d",' * 3000 + b'"d"]']
WORDS: Final = [b"null", b"true", b"false", b"nul", b"", b"impression", b'"impression"']
TOKENS: Final = [*NESTED, *NUMBERS, *TEXTS, *LISTS, *WORDS]
"""Values of members, not all of them JSON."""

raw_values = (
    st.sampled_from(TOKENS)
    | json_values.map(lambda value: json.dumps(value).encode())
    | st.binary(max_size=12)
)
names = st.sampled_from(
    [json.dumps(name).encode() for name in (*IMPRESSION, *FEEDBACK, "country", "nobody")]
) | st.sampled_from([token for token in TEXTS if token.startswith(b'"')])


def members_of(record: object) -> Members:
    assert isinstance(record, dict)
    return [(json.dumps(name).encode(), json.dumps(record[name]).encode()) for name in record]


def as_object(members: Members) -> bytes:
    return b"{" + b",".join(name + b":" + value for name, value in members) + b"}"


@st.composite
def objects(draw: st.DrawFn, valid: Sequence[Mapping[str, object]]) -> bytes:
    """A valid record with members replaced, added, doubled or taken out, also of inner objects."""
    record = draw(st.sampled_from(valid))
    members = members_of(record)
    inner = [name for name, value in record.items() if isinstance(value, dict)]
    if inner and draw(st.booleans()):
        name = draw(st.sampled_from(inner))
        value = as_object(draw(changed(members_of(record[name]))))
        members = [(key, value if json.loads(key) == name else old) for key, old in members]
        return as_object(members)
    return as_object(draw(changed(members)))


@st.composite
def changed(draw: st.DrawFn, members: Members) -> Members:
    members = list(members)
    for _ in range(draw(st.integers(0, 3))):
        index = draw(st.integers(0, max(0, len(members) - 1)))
        name = members[index][0] if members else draw(names)
        change = draw(st.sampled_from(("replace", "double", "add", "remove")))
        if change in ("replace", "remove"):
            del members[index : index + 1]
        if change != "remove":
            added = draw(names) if change == "add" else name
            members.insert(draw(st.integers(0, len(members))), (added, draw(raw_values)))
    return members


@st.composite
def records(draw: st.DrawFn, valid: Sequence[Mapping[str, object]]) -> bytes:
    """What a producer might send: objects, arrays of them, halves, glued and flipped bytes."""
    value = draw(objects(valid))
    frame = draw(st.integers(0, 9))
    if frame == 0:
        value = BOM + value
    elif frame == 1:
        value = b"[" + b" ,\n".join([value, *draw(st.lists(objects(valid), max_size=3))]) + b"]"
    elif frame == 2:
        value = value[: draw(st.integers(0, len(value)))]
    elif frame == 3:
        value += draw(st.sampled_from((value, b"x", b" ", b"\x00", b"]", b",")))
    elif frame == 4:
        value = b"[[" + value + b"],1,null," + value + b"]"
    return draw(flipped(value)) if frame == 5 else value


@st.composite
def flipped(draw: st.DrawFn, value: bytes) -> bytes:
    """The same bytes but for a few, or with a few cut out or put in."""
    changed = bytearray(value)
    for _ in range(draw(st.integers(1, 4))):
        index = draw(st.integers(0, len(changed)))
        length = draw(st.integers(0, 2))
        changed[index : index + length] = draw(st.binary(max_size=3))
    return bytes(changed)
