"""An event written in the native format is read as the same event."""

from hypothesis import given, strategies as st
from msgspec.structs import fields

from relevanced.daemon.events import (
    FORMATS,
    Event,
    Feedback,
    Impression,
    Limits,
    Rejected,
    decoder,
    native as module,
    native_text,
)
from tests.fuzz.hostile import records
from tests.fuzz.settings import examples
from tests.fuzz.test_any_bytes import GOOD

LIMITS = Limits(depth=5, max_grade=3.0, attributes=("country", "device", "application"))
READ_BACK = decoder("native", Limits(5, 3.0, max_record_bytes=2**62, attributes=LIMITS.attributes))

names = st.text(min_size=1, max_size=60)
impressions = st.builds(
    Impression,
    impression_id=names,
    time_ms=st.integers(0, 10**14 - 1),
    items=st.lists(names, max_size=5).map(tuple),
    attributes=st.dictionaries(st.sampled_from(LIMITS.attributes or ()), names),
    experiments=st.dictionaries(names, names, max_size=3),
    grades=st.dictionaries(names, st.floats(0, 3), max_size=3),
    user_id=st.none() | names,
    teams=st.just(()) | st.lists(st.none() | names, min_size=1, max_size=5).map(tuple),
)
feedback = st.builds(
    Feedback,
    impression_id=names,
    time_ms=st.integers(0, 10**14 - 1),
    kind=st.text(max_size=60),
    item=st.none() | names,
    rank=st.integers(1, 2**63 - 1),
    grade=st.none() | st.floats(0, 3),
)


@examples(300)
@given(impressions | feedback)
def test_any_event_is_read_as_it_was_written(event: Event) -> None:
    line = native_text(event)
    assert b"\n" not in line
    assert READ_BACK(line, None) == [event]


@examples(300)
@given(st.sampled_from(list(FORMATS)), st.data())
def test_what_any_format_reads_survives(name: str, data: st.DataObject) -> None:
    for event in decoder(name, LIMITS)(data.draw(records(GOOD[name])), None):
        if not isinstance(event, Rejected):
            assert READ_BACK(native_text(event), None) == [event]


def test_later_pages_and_early_times_survive() -> None:
    for event in (
        Impression("q", 1, ("a",), first_rank=3),
        Impression("q", 10**11 - 1, (), first_rank=200),
        Feedback("q", 0, grade=0.5, rank=1),
    ):
        assert READ_BACK(native_text(event), None) == [event]


def test_every_field_of_an_event_is_written() -> None:
    """A field that were not would be lost in a replay, and nowhere else."""
    for event, written in ((Impression, module._ImpressionText), (Feedback, module._FeedbackText)):
        expected = [field.name.replace("time_ms", "timestamp") for field in fields(event)]
        assert [field.name for field in fields(written)] == expected
