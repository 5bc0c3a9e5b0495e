"""The memory of what queries are derived to."""

import pytest

from relevanced.daemon.judgements import IndexEntry, Timeline
from relevanced.daemon.lane import DerivedAttributes, derived_attributes
from relevanced.daemon.queries import Derivation

LENGTH = Derivation("length", words=(1, 2))
QUERIES = ["a b", None, "", "A  B", "b"]
NOW = [1_000]
KIND = Derivation("kind", patterns=(("1", "^a"),))


def test_values_of_each_query_have_one_text_in_front() -> None:
    found = DerivedAttributes((LENGTH, KIND)).of_all(QUERIES, NOW * 5)
    assert [dict(values) for _, values in found] == [
        {"length": "2", "kind": "1"},
        {"length": None, "kind": None},
        {"length": None, "kind": None},
        {"length": "2", "kind": "1"},
        {"length": "1", "kind": None},
    ]
    marks = [mark for mark, _ in found]
    assert marks == [b'["2", "1"]', b"[null, null]", b"[null, null]", b'["2", "1"]', b'["1", null]']


def test_a_text_is_matched_once(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []

    def value_of(_: Derivation, key: str) -> None:
        asked.append(key)

    monkeypatch.setattr(Derivation, "value_of", value_of)
    attributes = DerivedAttributes((KIND,))
    for _ in range(3):
        attributes.of_all(["a b", "c", "a b"], NOW * 3)
        assert attributes.values_of("c", *NOW) == {"kind": None}
    assert sorted(asked) == ["a b", "c"]


@pytest.mark.parametrize("letter", ["a", "\u00e4"])
def test_what_is_remembered_is_bounded_and_forgetting_changes_no_value(
    letter: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(derived_attributes, "MOST_REMEMBERED", 1_000)
    attributes, sizes = DerivedAttributes((LENGTH, KIND)), []
    for number in range(500):
        query = f"{letter}{number} b" * (1 + number % 3)
        assert attributes.values_of(query, *NOW) == {
            "length": "2" if number % 3 == 0 else "3+",
            "kind": "1" if letter == "a" else None,
        }
        sizes.append(len(attributes._keys) + len(attributes._matched["kind"]))
    assert 5 < max(sizes) <= 1_000 // derived_attributes.ENTRY_CHARACTERS + 5


def test_texts_of_all_alphabets_are_derived_together() -> None:
    attributes = DerivedAttributes((LENGTH, KIND))
    queries = ["a b", None, "\uff21\u3000B c", "\u00e4", "", "A"]
    found = attributes.of_all(queries, NOW * len(queries))
    assert [values["length"] for _, values in found] == ["2", None, "3+", "1", None, "1"]
    assert [values["kind"] for _, values in found] == ["1", None, "1", None, None, "1"]


TRAFFIC = Derivation("traffic", by_files=True, unlisted="tail")
FIRST, SECOND = IndexEntry(1_000, "first", "1"), IndexEntry(2_000, "second", "2")
CLASSES = {FIRST: {"a b": "head"}, SECOND: {"a b": "torso", "b": "head"}}


def test_class_is_that_of_the_file_in_force_at_the_own_time_of_the_impression() -> None:
    attributes = DerivedAttributes((LENGTH, TRAFFIC))
    assert attributes.values_of("A b", 5_000) == {"length": "2", "traffic": None}
    attributes.use_files({"traffic": Timeline((FIRST, SECOND))}, CLASSES)
    times = [999, 1_000, 1_999, 2_000, 2_000, 2_000]
    found = attributes.of_all(["A b", "a b", "b", "a B", "b", None], times)
    assert [values["traffic"] for _, values in found] == [
        None, "head", "tail", "torso", "head", None
    ]  # fmt: skip
    one_by_one = [attributes.values_of(q, t) for q, t in zip(["A b", "b"], [1_000, 2_000])]
    assert [values["traffic"] for values in one_by_one] == ["head", "head"]


def test_file_that_is_adopted_later_changes_nothing_before_its_start() -> None:
    attributes = DerivedAttributes((TRAFFIC,))
    attributes.use_files({"traffic": Timeline((FIRST,))}, CLASSES)
    before = attributes.of_all(["a b", "b"], [1_500, 2_500])
    attributes.use_files({"traffic": Timeline((FIRST, SECOND))}, CLASSES)
    assert attributes.of_all(["a b", "b"], [1_500, 1_500]) == before
    assert attributes.values_of("b", 2_500) == {"traffic": "head"}


def test_files_that_are_over_are_forgotten() -> None:
    attributes = DerivedAttributes((TRAFFIC,))
    attributes.use_files({"traffic": Timeline((FIRST, SECOND))}, CLASSES)
    attributes.of_all(["a b"] * 3, [0, 1_000, 2_000])
    attributes.use_files({"traffic": Timeline((SECOND,))}, {SECOND: CLASSES[SECOND]})
    assert attributes._files == {"traffic": ([2_000], [None, CLASSES[SECOND]])}
    assert attributes.values_of("a b", 1_500) == {"traffic": None}


@pytest.mark.parametrize("letter", ["a", "\u00e4"])
def test_steps_leave_nothing_to_work_out(letter: str, monkeypatch: pytest.MonkeyPatch) -> None:
    derivations = LENGTH, KIND
    attributes = DerivedAttributes(derivations)
    queries = [f"{'a ' * (n % 5)}{letter}{n}" for n in range(300)]
    attributes.begin()
    assert sum(1 for _ in attributes.steps([*queries, None])) > 1
    expected = DerivedAttributes(derivations).of_all(queries, NOW * len(queries))
    monkeypatch.setattr(derived_attributes, "key_steps", None)
    monkeypatch.setattr(Derivation, "value_of", None)
    if letter != "a":
        monkeypatch.setattr(derived_attributes, "keys_of", None)
    assert attributes.of_all(queries, NOW * len(queries)) == expected
