"""The memory of what queries are derived to."""

import pytest

from relevanced.daemon.lane import derived
from relevanced.daemon.lane.derived import DerivedAttributes
from relevanced.daemon.queries import keys
from relevanced.daemon.queries.derivation import Derivation

LENGTH = Derivation("length", words=(1, 2))
KIND = Derivation("kind", patterns=(("1", "^a"),))


def test_values_of_each_query_have_one_text_in_front() -> None:
    found = DerivedAttributes((LENGTH, KIND)).of_all(["a b", None, "", "A  B", "b"])
    assert [dict(values) for _, values in found] == [
        {"length": "2", "kind": "1"},
        {"length": None, "kind": None},
        {"length": None, "kind": None},
        {"length": "2", "kind": "1"},
        {"length": "1", "kind": None},
    ]
    marks = [mark for mark, _ in found]
    assert marks == [b'["2", "1"]', b"[null, null]", b"[null, null]", b'["2", "1"]', b'["1", null]']


def test_a_text_is_normalised_once(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []

    def keys_of(texts: list[str]) -> list[str]:
        asked.extend(texts)
        return keys.keys_of(texts)

    monkeypatch.setattr(derived, "keys_of", keys_of)
    attributes = DerivedAttributes((LENGTH,))
    for _ in range(3):
        attributes.of_all(["a b", "c", "a b"])
        assert attributes.values_of("c") == {"length": "1"}
    assert sorted(asked) == ["a b", "c"]


def test_what_is_remembered_is_bounded_and_forgetting_changes_no_value(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(derived, "MOST_REMEMBERED", 1_000)
    attributes, sizes = DerivedAttributes((LENGTH,)), []
    for number in range(500):
        query = f"{number} b" * (1 + number % 3)
        assert attributes.values_of(query) == {"length": "2" if number % 3 == 0 else "3+"}
        sizes.append(len(attributes._by_text))
    assert max(sizes) <= 1_000 // derived.ENTRY_CHARACTERS + 2
