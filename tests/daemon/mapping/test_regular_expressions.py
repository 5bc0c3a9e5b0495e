"""Which regular expressions may be used, and how long they can take."""

import math
import random
import re
import time

import pytest

from relevanced.daemon.mapping import (
    InvalidExpression,
    expression,
    literals,
    most_steps,
    pattern_fault,
)

LENGTH = 128
HURTING = ("a" * 128, "ab" * 64, "a b " * 32, "abcd" * 32, " " * 128, "1" * 128)


@pytest.mark.parametrize(
    ("pattern", "steps"),
    [
        ("", 129),
        (r"^[a-z]{2}\d{5,}$", 129),
        (r"(?i)\b(nike|adidas)\b", 2 * 129),
        ("a*b", math.comb(130, 2)),
        ("^a*b", 129),
        (".*.*x", math.comb(131, 3)),
        (r"^(buy|order)\s+.*\s+online$", 2 * math.comb(131, 3)),
        (r"\Aa{2,4}b", 3),
        ("(?:a*){8}b", 16 * math.comb(137, 9)),
        ("x|^y*", 2 * math.comb(130, 2)),
        ("(ab)?(?(1)c|d*)e", 16 * 2 * 2 * math.comb(130, 2)),
        ("(?=a*)(?>b+)c", math.comb(131, 3)),
    ],
)
def test_steps_are_the_ways_of_repeats_in_a_row_times_the_choices(
    pattern: str, steps: float
) -> None:
    assert pattern_fault(pattern) is None
    assert most_steps(pattern, LENGTH) == steps


def test_steps_beyond_all_numbers_are_infinite() -> None:
    nested = "(?:ab|cd)"
    for _ in range(4):
        nested = f"(?:{nested}){{8}}"
    assert pattern_fault(nested) is None
    assert most_steps(nested, LENGTH) == math.inf


def test_patterns_within_a_million_steps_take_milliseconds(seed: int = 3) -> None:
    rng, tried = random.Random(seed), 0
    parts = (
        "a*",
        ".*",
        r"\S+",
        "[ab]*",
        "(?:a|bc)",
        "(?:ab|a)?",
        "(?:.{0,7}){2}",
        "b",
        " ",
        r"\d{2,9}",
        "a{0,30}",
    )
    while tried < 150:
        pattern = "^" * rng.randrange(2) + "".join(rng.choices(parts, k=rng.randrange(1, 8))) + "x"
        if pattern_fault(pattern) is None and most_steps(pattern, LENGTH) <= 1_000_000:
            tried += 1
            started = time.process_time()
            for text in HURTING:
                re.search(pattern, text)
            assert time.process_time() - started < len(HURTING) * 0.1, pattern


@pytest.mark.parametrize(
    ("pattern", "found"),
    [("Ni+", "Ni"), (r"n\S\D\W", "n"), (r"[A-Z]\b", ""), ("a|(?:bc|C )É", "aÉbcC "), ("", "")],
)
def test_literals_are_the_characters_outside_of_sets(pattern: str, found: str) -> None:
    assert sorted(literals(pattern)) == sorted(found)


@pytest.mark.parametrize(
    ("pattern", "is_used"),
    [
        ("(?i)bot|crawl|spider", True),
        ("Mozilla.*Chrome.*Safari", True),
        ("^a.*b.*c", True),
        ("a.*b.*c.*d", False),
        ("(?:a*){8}b", False),
    ],
)
def test_expressions_refuse_patterns_whose_repeats_in_a_row_take_too_long(
    pattern: str, is_used: bool
) -> None:
    try:
        expression(f"regex(a, '{pattern}')")
    except InvalidExpression as error:
        assert not is_used and "begin the pattern with ^, or write fewer of them" in str(error)
    else:
        assert is_used
