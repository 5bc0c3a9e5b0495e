"""Stretches of time that are left out: what FROM/TO means, and which instants it holds."""

import random
from dataclasses import replace

import numpy as np
import pytest

from relevanced.daemon.experiments import (
    SampleRatio,
    excluded_of,
    joined_stretches,
    parse_stretch,
    stretches_text,
    weights_within,
    within_stretches,
)
from tests.arms import SPEC, arm
from tests.seeds import seeds


def test_utc_holds_unless_an_offset_is_given() -> None:
    assert parse_stretch("2026-11-20T14:00/2026-11-20T16:30") == parse_stretch(
        "2026-11-20T15:00+01:00/2026-11-20T16:30Z"
    )
    assert parse_stretch("2026-11-20/2026-11-21") == parse_stretch(
        "2026-11-20T00:00Z/2026-11-21T00:00:00Z"
    )


@pytest.mark.parametrize(
    "text",
    ("", "2026-11-20", "/", "2026-11-20/", "2026-11-21/2026-11-20", "2026-11-20/2026-11-20", "x/y"),
)
def test_what_is_no_stretch_is_refused_with_the_rule(text: str) -> None:
    with pytest.raises(ValueError, match="must be FROM/TO") as refused:
        parse_stretch(text)
    assert str(refused.value).startswith(f"{text}: ")


@pytest.mark.parametrize("seed", seeds(200))
def test_instants_of_joined_stretches_are_those_of_any_of_them(seed: int) -> None:
    print(f"seed {seed}")
    rng = random.Random(seed)
    given = [(start, start + rng.randint(1, 6)) for start in rng.choices(range(40), k=seed % 7)]
    times = np.arange(-2, 50)
    slow = [any(start <= at < end for start, end in given) for at in times.tolist()]
    found = joined_stretches(given)
    assert within_stretches(times, found).tolist() == slow
    ends = [end for one in found for end in one]
    assert ends == sorted(set(ends)), "stretches overlap or touch"


def test_texts_are_as_precise_as_the_instants() -> None:
    assert stretches_text([(0, 1_500), (60_000, 61_000)]) == (
        "1970-01-01 00:00 – 00:00:01.500 UTC, 1970-01-01 00:01 – 00:01:01 UTC"
    )


def test_what_an_exclusion_lost_is_held_against_the_shares_of_its_time() -> None:
    ramp = ((100, (("control", 1.0), ("treatment", 1.0))),)
    spec = replace(SPEC, weights=(("control", 19.0), ("treatment", 1.0)), ramp=ramp)
    assert weights_within(spec, [(0, 50), (60, 100)]) == spec.weights
    assert weights_within(spec, [(100, 101)]) == ramp[0][1]
    assert weights_within(spec, [(99, 101)]) is None


def test_unequal_losses_are_warned_of_and_equal_ones_are_not() -> None:
    arms = {"treatment": arm((), 2, range(30), 2), "control": arm((), 1, range(30, 50), 2)}
    sound = excluded_of(SPEC, [(0, 60_000)], arms, SampleRatio(0.1, 0.9))
    assert sound.words == ("Leaves out 1970-01-01 00:00 – 00:01 UTC: 100 impressions of 2 arms")
    assert [(one.variant, one.impressions) for one in sound.variants] == [
        ("control", 40),
        ("treatment", 60),
    ]
    assert sound.stretches == (("1970-01-01T00:00:00.000Z", "1970-01-01T00:01:00.000Z"),)
    assert sound.warning == "" and "outside of the outcome" in sound.caution
    unequal = excluded_of(SPEC, [(0, 60_000)], arms, SampleRatio(7.0, 0.001))
    assert unequal.warning.startswith("the arms lost unequal shares (ln e = 7.0)")
    unknown = excluded_of(SPEC, [(0, 60_000)], arms, None)
    assert "is not tested" in unknown.warning
