"""What is derived from a query."""

import random
import re

import pytest

from relevanced.daemon.queries import Derivation, key_of
from tests import oracle_queries
from tests.searches import QUERIES, RULES

TEXTS = [query for query in QUERIES if isinstance(query, str)]


def of(name: str) -> Derivation:
    rule = RULES[name]
    if isinstance(rule, tuple):
        return Derivation(name, words=rule)
    assert isinstance(rule, dict)
    return Derivation(name, patterns=tuple(rule.items()))


def value_of(derivation: Derivation, key: str) -> str | None:
    return derivation.lengths_of([key])[0] if derivation.words else derivation.value_of(key)


@pytest.mark.parametrize(
    ("words", "values"),
    [
        ((1, 2, 3), ["1", "2", "3", "4+", "4+", "4+"]),
        ((2, 5), ["1-2", "1-2", "3-5", "3-5", "3-5", "6+"]),
        ((4,), ["1-4", "1-4", "1-4", "1-4", "5+", "5+"]),
    ],
)
def test_words_fall_into_classes(words: tuple[int, ...], values: list[str]) -> None:
    by_words = Derivation("length", words=words)
    assert by_words.lengths_of([" ".join("abcdef"[:n]) for n in range(1, 7)]) == values


def test_the_first_pattern_that_matches_counts_and_none_is_no_value() -> None:
    kind = Derivation("kind", patterns=(("b", "nike"), ("a", "shoes$"), ("c", "")))
    assert [kind.value_of(key) for key in ("nike shoes", "red shoes", "x")] == ["b", "a", "c"]
    assert Derivation("kind", patterns=(("b", "nike"),)).value_of("shoes") is None


@pytest.mark.parametrize("name", RULES)
def test_no_query_has_no_value(name: str) -> None:
    assert value_of(of(name), "") is None


@pytest.mark.parametrize("name", RULES)
def test_values_are_those_of_the_oracle(name: str, seed: int = 5) -> None:
    rng = random.Random(seed)
    texts = TEXTS + [
        "".join(rng.choices("aB 1\u3000ﬁß\u0301\t", k=rng.randrange(1, 200))) for _ in range(300)
    ]
    rule = {name: RULES[name]}
    for text in texts:
        expected = oracle_queries.derived(rule, text, time_ms=0).get(name)
        assert value_of(of(name), key_of(text)) == expected, text


def test_another_rule_or_order_means_something_else() -> None:
    patterns = (("a", "x"), ("b", "y"))
    meanings = {
        Derivation("kind", words=(1, 2)).meaning,
        Derivation("kind", words=(1, 3)).meaning,
        Derivation("kind", patterns=patterns).meaning,
        Derivation("kind", patterns=patterns[::-1]).meaning,
        Derivation("other", patterns=patterns).meaning,
    }
    assert len(meanings) == 5
    assert all(re.fullmatch(r"(kind|other)~[0-9a-f]{8}", meaning) for meaning in meanings)
    assert Derivation("kind", words=(1, 2)).meaning == "kind~d77584fc"
