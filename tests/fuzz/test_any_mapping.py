"""Whatever bytes a record of a mapping has, it becomes an event within the limits or a reason of
the table."""

import json
from typing import Any, Final

import pytest
from hypothesis import given, strategies as st

from relevanced.daemon.events import NOT_MAPPED, Decoded, Limits, Skipped
from tests.daemon.mapping.preset_records import EXAMPLES
from tests.daemon.mapping.sources import mapper_of
from tests.fuzz.flow import check_verdicts
from tests.fuzz.hostile import TOKENS, flipped, records
from tests.fuzz.settings import examples

LIMITS: Final = Limits(depth=5, max_grade=3.0, attributes=("country", "device"))
EVERYTHING: Final = """
envelope = "cloudevents"
each = "parse_json(body) || split(list, ',') || zip(a, b) || data || @"
[sources.impression]
id = ["header('h') || id", "to_string(id)"]
time = "kafka_time() || ce('time') || at"
items = "sort_by(items, &rank) || map(&id, items) || items[].[id][] || values(items)"
item = "id || @"
rank = "to_number(rank)"
page = "abs(page)"
page_size = "length(items) || sum(items[].rank)"
grade = "max(items[].grade) || avg([rank, grade])"
team = "join('-', [team, by])"
visitor = "reverse(id)"
attributes = { country = "not_null(country, type(id))", "*" = "merge(@, facets)" }
experiments = { map = "ab || @" }
[sources.feedback]
where = "id < at || contains(items, id) || regex(id, '^[a-z]+$') || starts_with(id, 'q')"
id = "id"
time = "at"
kind = "kind || floor(id) || keys(@)[0]"
items = "items[?rank > `1`] || items[*].* | []"
item = "[0] || id || @"
rank = "[1] || ceil(rank)"
grade = "min(@.*) || grade"
"""
DATA: Final[dict[str, Any]] = {
    "id": "q1",
    "at": 1795176000000,
    "items": [{"id": "a", "rank": 2, "grade": 1, "team": "x"}, {"id": "b", "rank": 1}],
    "page": 1,
    "ab": {"ranker": "new"},
    "facets": {"shop": "s", "n": 3},
    "kind": "click",
}
MAPPERS: Final = {
    name: (mapper_of(f'preset = "{name}"\n{example.config}', LIMITS), example.records)
    for name, example in EXAMPLES.items()
} | {"everything": (mapper_of(EVERYTHING, LIMITS), [{"specversion": "1.0", "data": DATA}])}


@st.composite
def deeply_changed(draw: st.DrawFn, value: Any) -> bytes:
    """The record as JSON, with a value at any depth replaced by a hostile one."""
    text = json.dumps(value)
    paths = list(_paths(value))
    for path in draw(st.lists(st.sampled_from(paths), min_size=1, max_size=4)):
        value = _with(value, path, f"@@{len(text)}@@")
    changed = json.dumps(value).encode()
    while (mark := f'"@@{len(text)}@@"'.encode()) in changed:
        changed = changed.replace(mark, draw(st.sampled_from(TOKENS)), 1)
    return changed


def is_not_mapped(verdict: Decoded) -> bool:
    return isinstance(verdict, Skipped) and verdict.reason == NOT_MAPPED


def _paths(value: Any, path: tuple[Any, ...] = ()) -> Any:
    inner = value.items() if isinstance(value, dict) else enumerate(value)
    for key, one in inner:
        yield (*path, key)
        if isinstance(one, (dict, list)):
            yield from _paths(one, (*path, key))


def _with(value: Any, path: tuple[Any, ...], leaf: object) -> Any:
    if not path or not isinstance(value, (dict, list)):
        return leaf
    copied: Any = dict(value) if isinstance(value, dict) else list(value)
    copied[path[0]] = _with(copied[path[0]], path[1:], leaf)
    return copied


@pytest.mark.parametrize("name", MAPPERS)
@examples(150)
@given(st.data())
def test_any_record_of_a_mapping_ends_in_a_verdict(name: str, data: st.DataObject) -> None:
    mapper, good = MAPPERS[name]
    record = data.draw(st.sampled_from(list(good)))
    value = data.draw(
        deeply_changed(record)
        | deeply_changed(record).flatmap(flipped)
        | records(list(good))
        | st.binary(max_size=40)
    )
    headers = data.draw(
        st.lists(
            st.tuples(
                st.sampled_from(("content-type", "CE_specversion", "ce_time", "h", "")),
                st.sampled_from((b"application/cloudevents+json", b"1.0", b"\xff", b"")),
            ),
            max_size=3,
        )
    )
    record_ms = data.draw(st.sampled_from((None, -1, 0, 1795176000000)))
    verdicts = mapper.events(value, record_ms, b"\xff", headers)
    check_verdicts([one for one in verdicts if not is_not_mapped(one)], LIMITS)
