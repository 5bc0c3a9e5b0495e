"""The field readers: what an id, a rank, a grade or an attribute may be."""

import json
import re

import msgspec
import pytest
from hypothesis import given, strategies as st

from relevanced.daemon.events import (
    SHOWN_CHARACTERS,
    InvalidField,
    attribute_texts,
    fields,
    raw_members,
    shown,
    without_halves,
)


def reason_of(reader: str, *arguments: object) -> str:
    with pytest.raises(InvalidField) as caught:
        getattr(fields, reader)(*arguments)
    return caught.value.reason


@given(
    st.lists(st.sampled_from(["\\\\", r"\ud83c", r"\uDF89", r"\uDBff", "\\n", "u", "d83c", "é"]))
)
def test_only_unpaired_halves_become_u_fffd(parts: list[str]) -> None:
    written = json.dumps(["x"])[:-2] + "".join(parts) + '"]'
    (text,) = json.loads(written)
    expected = re.sub("[\ud800-\udfff]", "\ufffd", text)
    found = without_halves(written.encode())
    assert msgspec.json.decode(found) == [expected]
    assert (found == written.encode()) == (text == expected)


def test_identifier_is_text_or_decimal() -> None:
    assert fields.identifier("item", "d7") == "d7"
    assert fields.identifier("item", -17) == "-17"
    assert fields.identifier("item", 10**255) == "1" + "0" * 255


@pytest.mark.parametrize("text", ["a" * 256, "é" * 128, "€" * 85, "😀" * 64])
def test_identifier_length_counts_bytes(text: str) -> None:
    assert fields.identifier("item", text) == text
    assert reason_of("identifier", "item", text + "éé") == "bad_id"


@pytest.mark.parametrize("value", [True, 1.0, None, [], {}])
def test_identifier_of_another_type_is_wrong(value: object) -> None:
    assert reason_of("identifier", "item", value) == "wrong_type"
    assert reason_of("identifiers", "items", ["d1", value]) == "wrong_type"


def test_identifier_is_never_empty() -> None:
    assert reason_of("identifier", "item", "") == "bad_id"
    assert reason_of("identifiers", "items", ["d1", ""]) == "bad_id"


def test_grade_clamps_below_zero_and_refuses_above_the_scale() -> None:
    assert fields.grade_value("grade", -(10**400), 3.0) == 0.0
    assert fields.grade_value("grade", 2.5, 3.0) == 2.5
    assert reason_of("grade_value", "grade", 3.1, 3.0) == "bad_grade"
    assert reason_of("grade_value", "grade", 10**400, 3.0) == "bad_grade"


@pytest.mark.parametrize("value", [True, "1", None, float("nan"), float("inf"), []])
def test_grade_is_a_finite_number(value: object) -> None:
    assert reason_of("grade_value", "grade", value, 3.0) == "bad_grade"


def texts_of(values: object) -> tuple[dict[str, str], list[str]]:
    dropped: list[str] = []
    raws = raw_members("attributes", msgspec.json.encode(values))
    return attribute_texts(raws, dropped), dropped


def test_attributes_become_text() -> None:
    given_values = {"a": "x", "b": True, "c": False, "d": 7, "e": 0.5, "f": 1e22, "g": None}
    expected = {"a": "x", "b": "true", "c": "false", "d": "7", "e": "0.5", "f": "1e+22"}
    assert texts_of(given_values) == (expected, [])
    assert texts_of(None) == ({}, [])


@pytest.mark.parametrize(
    ("values", "reason"),
    [
        ({"a": []}, "bad_value"),
        ({"a": {}}, "bad_value"),
        ({"a": "é" * 129}, "long_value"),
        ({"é" * 129: "a"}, "long_name"),
    ],
)
def test_attributes_are_short_scalars(values: dict[str, object], reason: str) -> None:
    assert texts_of({**values, "b": "x"}) == ({"b": "x"}, [reason])


@pytest.mark.parametrize("value", ["US", 5, ["US"]])
def test_attributes_are_an_object(value: object) -> None:
    with pytest.raises(InvalidField) as caught:
        texts_of(value)
    assert caught.value.reason == "wrong_type"


@pytest.mark.parametrize("value", [2.5, "2.0", True, 2**63, -(2**63), []])
def test_rank_is_an_integer_of_64_bits(value: object) -> None:
    assert reason_of("whole_rank", "rank", value) == "bad_rank"


def test_feedback_needs_an_item_or_a_rank_from_1() -> None:
    fields.check_item_or_rank("d1", -3)
    fields.check_item_or_rank(None, 1)
    assert reason_of("check_item_or_rank", None, None) == "missing_field"
    assert reason_of("check_item_or_rank", None, 0) == "bad_rank"


@given(st.text() | st.integers() | st.floats() | st.none() | st.booleans())
def test_shown_value_is_one_short_line(value: object) -> None:
    assert len(shown(value)) <= SHOWN_CHARACTERS
    assert len(shown(value).splitlines()) == 1
