"""Plain records are read as the careful reader reads them, value for value."""

import json
from types import SimpleNamespace

import pytest
from hypothesis import given, strategies as st

from relevanced.daemon.attribution import NO_RANK, LoggedRecords, Run, Single, read_runs
from relevanced.daemon.events import (
    Feedback,
    Impression,
    Impressions,
    Limits,
    decoder,
    read_carefully,
)
from relevanced.daemon.lane import AttributeTexts
from relevanced.daemon.plan import Plan
from tests.builders import plan_with, record
from tests.daemon.events.records import (
    FEEDBACK,
    GONE,
    IMPRESSION,
    NOON_MS,
    as_bytes,
    damaged,
    good_feedback,
    good_impressions,
)

LIMITS = Limits(max_grade=3.0, attributes=("country", "device"))
"""As a configuration makes them: attributes that no grouping names are skipped unread."""
PLAN = plan_with(groupings=(("country",), ("device",)))
PLAIN = {**IMPRESSION, "grades": None}


def parts_of(value: bytes, limits: Limits, plan: Plan) -> list[Run | Single]:
    """What a record is read as."""
    parts = read_runs(
        LoggedRecords([record(value)]), decoder("native", limits), AttributeTexts(plan)
    )
    return [part for part in parts if isinstance(part, (Run, Single))]


def assert_read_as_carefully(value: bytes) -> bool:
    """True where it was plain."""
    (part,) = parts_of(value, LIMITS, PLAN)
    if not isinstance(part, Run) or part.others:
        return False
    event = read_carefully(value, LIMITS)
    assert (part.ids.text(0), part.times_ms.tolist()) == (event.impression_id, [event.time_ms])
    if isinstance(event, Impression):
        shown = json.loads(bytes(part.items[0]))
        assert (shown, part.lengths[0]) == ([*event.items], len(event.items))
        parsed = part.parsed_attributes[part.attribute_ids[0]]
        assert parsed.values == PLAN.values_of(event.attributes, event.experiments)
        assert (event.first_rank, event.grades, event.teams) == (1, {}, ())
    else:
        assert isinstance(event, Feedback)
        rank = NO_RANK if event.rank is None else event.rank
        assert (part.kinds, part.ranks.tolist()) == ([event.kind], [rank])
        assert (part.feedback_items.text(0), event.grade) == (event.item, None)
    return True


@given(good_impressions | good_feedback, st.booleans())
def test_good_records(event: dict[str, object], escaped: bool) -> None:
    assert_read_as_carefully(json.dumps(event, ensure_ascii=escaped).encode())


@given(damaged(PLAIN, FEEDBACK))
def test_damaged_records(value: bytes) -> None:
    assert_read_as_carefully(value)


@pytest.mark.parametrize(
    "value",
    [
        as_bytes(PLAIN),
        as_bytes(PLAIN, items=[7, "d7"], timestamp=NOON_MS),
        as_bytes(PLAIN, items=['"', "ü", "\\"], attributes=GONE),
        as_bytes(FEEDBACK),
        as_bytes(FEEDBACK, item=-7, timestamp="2026-11-20T13:00:00+01:00"),
    ],
)
def test_any_spelling_of_a_plain_record_is_plain(value: bytes) -> None:
    assert assert_read_as_carefully(value)


@pytest.mark.parametrize("digits", [20, 257, 4301])
def test_a_number_too_large_for_an_id_is_left_to_the_careful_reader(digits: int) -> None:
    many = b"9" * digits
    for value in (as_bytes(FEEDBACK, item="?"), as_bytes(PLAIN, items=["?"])):
        assert_read_as_carefully(value.replace(b'"?"', many))


def test_attribute_that_no_field_can_stand_for_is_left_to_the_careful_reader() -> None:
    value = as_bytes(PLAIN, attributes={'a "b"': "US"})
    limits = Limits(attributes=('a "b"',))
    plan = plan_with(groupings=(('a "b"',),))
    (part,) = parts_of(value, limits, plan)
    assert isinstance(part, Run)
    assert part.others[0].attributes == {'a "b"': "US"}


def test_attribute_that_is_not_requested_is_skipped_whatever_its_value() -> None:
    value = as_bytes(PLAIN).replace(b'"country"', b'"\x80ountry"')
    assert assert_read_as_carefully(value)


def test_impressions_that_differ_in_what_nothing_needs_share_their_attributes() -> None:
    many = [{"country": "US" if n < 2 else "DE", "request": f"r{n}"} for n in range(4)]
    records = LoggedRecords([record(as_bytes(PLAIN, attributes=each)) for each in many])
    *_, run = read_runs(records, decoder("native", LIMITS), AttributeTexts(PLAN))
    assert isinstance(run, Run) and run.attribute_ids.tolist() == [0, 0, 1, 1]
    assert [parsed.attributes["country"] for parsed in run.parsed_attributes] == ["US", "DE"]


def test_texts_that_differ_in_what_nothing_needs_are_not_remembered_for_ever() -> None:
    texts, count = AttributeTexts(PLAN), 50_000
    raw = [SimpleNamespace(attributes=b'{"n":%d}' % n, experiments=b"null") for n in range(count)]
    before = texts.table()
    assert texts.parse(Impressions((), (), (), (), (), raw=raw), ()) == [0] * count
    assert texts.table() is not before
