"""What a stage passes on under one layout is read under any other as the record itself would be."""

from collections.abc import Callable, Sequence
from functools import lru_cache, partial
from typing import Any, Final

import pytest
from hypothesis import given, strategies as st
from msgspec.structs import replace

from relevanced.daemon.events import (
    BY_ID,
    LAST_TOUCH,
    Decoded,
    Impression,
    Limits,
    Rejected,
    decoder,
    native_text,
)
from relevanced.daemon.mapping import mapper
from tests.daemon.events.records import IMPRESSION, as_bytes
from tests.daemon.events.test_ubi import QUERY
from tests.daemon.mapping.sources import OWN, mapper_of, shown
from tests.fuzz.hostile import records
from tests.fuzz.settings import examples
from tests.fuzz.test_any_bytes import GOOD
from tests.fuzz.test_any_mapping import MAPPERS, deeply_changed

Read = Callable[[bytes, int | None], Sequence[Decoded]]

LIMITS: Final = Limits(depth=5, max_grade=3.0)
EVERYTHING: Final = replace(LIMITS, attributes=None, queries=True)
LAYOUTS: Final = [
    replace(LIMITS, attributes=names, queries=queries)
    for names in ((), ("country",), ("application", "device", "shop"), ("country", 'a "name"'))
    for queries in (False, True)
]
FORMATS: Final = [*GOOD, *MAPPERS]
JOINED_BY: Final = (BY_ID, LAST_TOUCH)


@lru_cache(maxsize=None)
def reader(name: str, limits: Limits) -> Read:
    """What reads the records of a format, or of a mapping."""
    if name in MAPPERS:
        return mapper(MAPPERS[name][0].source, limits).events
    lists = "shown" if name.endswith("shown") else "logged"
    return decoder(name.split()[0], replace(limits, ubi_lists=lists))


def valid_records(name: str) -> list[Any]:
    found = list(MAPPERS[name][1] if name in MAPPERS else GOOD[name])
    query = "user_query" if name.startswith("ubi") else "query"
    return [*found, {**found[0], query: "running shoes", "attributes": {"country": "US", "n": 1}}]


def events_in(read: Sequence[Decoded]) -> list[Any]:
    return [one for one in read if not isinstance(one, Rejected)]


@lru_cache(maxsize=None)
def lane_reader(limits: Limits) -> Read:
    return decoder("native", replace(limits, max_record_bytes=2**62))


@pytest.mark.parametrize("name", FORMATS)
@examples(60)
@given(st.data(), st.sampled_from(LAYOUTS), st.sampled_from(LAYOUTS), st.sampled_from(JOINED_BY))
def test_what_a_stage_sends_is_read_under_any_layout_as_the_record_would_be(
    name: str, data: st.DataObject, of_stage: Limits, later: Limits, join: str
) -> None:
    of_stage, later, all_of_it = (replace(one, join=join) for one in (of_stage, later, EVERYTHING))
    valid = valid_records(name)
    value = data.draw(records(valid) | deeply_changed(data.draw(st.sampled_from(valid))))
    sent = reader(name, replace(of_stage, passes_on=True))(value, None)
    needed = [one if isinstance(one, Rejected) else of_stage.needed_of(one) for one in sent]
    assert needed == list(reader(name, of_stage)(value, None)), "nothing is refused beyond this"
    expected = events_in(reader(name, later)(value, None))
    # Some values, such as texts that are no UTF-8, cost a layout that needs them the whole record.
    accepted = len(events_in(reader(name, all_of_it)(value, None)))
    if accepted == len(events_in(sent)) == len(expected):
        texts = map(native_text, events_in(sent))
        assert [one for text in texts for one in lane_reader(later)(text, None)] == expected


GIVEN: Final = {"country": "US", "page": 2, "url": "x" * 257, "filters": [{}], "é" * 129: 1}
BROKEN: Final = {"broken": "@", "gone": None}
"""The text becomes bytes that are no UTF-8."""
TABLE: Final = OWN + 'query = "query"\nattributes = { "*" = "attributes", broken = "abs(type)" }'


@pytest.mark.parametrize(
    ("read", "valid", "attributes", "query", "more"),
    [
        (partial(decoder, "native"), IMPRESSION, "attributes", "query", BROKEN),
        (
            partial(decoder, "ubi"),
            {**QUERY, "application": None},
            "query_attributes",
            "user_query",
            BROKEN,
        ),
        (lambda limits: mapper_of(TABLE, limits).events, shown(), "attributes", "query", {}),
    ],
    ids=["native", "ubi", "mapped"],
)
def test_what_nobody_needs_is_passed_on_as_far_as_it_can_be_and_the_rest_is_left_out_unsaid(
    read: Callable[[Limits], Read],
    valid: dict[str, object],
    attributes: str,
    query: str,
    more: dict[str, object],
) -> None:
    value = as_bytes({**valid, attributes: {**GIVEN, **more}, query: 7})
    value = value.replace(b'"@"', b'"\xff"')
    (event,) = read(replace(LIMITS, attributes=("country",), passes_on=True))(value, None)
    assert isinstance(event, Impression)
    assert (event.attributes, event.query) == ({"country": "US", "page": "2"}, None)
