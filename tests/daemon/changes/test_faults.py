"""One fault from its onset to its end: what is over with the deepest fall, and what is left."""

from dataclasses import replace

import numpy as np

from relevanced.daemon.changes import (
    HOUR_MS,
    MINUTE_MS,
    Fall,
    FallCall,
    FallOnset,
    Levels,
    Look,
    followed,
    kept_together,
)
from tests.daemon.changes.test_fault_grouping import END, Effect, only, site

DE = ("country", "DE", "RR@10")


def repaired(minutes: int, effect: Effect) -> Look:
    """As `site`, but the effect is over for so long."""
    look, _ = site(effect, 120 * MINUTE_MS)
    healthy, _ = site(only(), 1)
    bins = look.timeline
    over = (bins.starts >= END - minutes * MINUTE_MS)[:, None]
    parts = {
        name: np.where(over, getattr(healthy.timeline, name), getattr(bins, name))
        for name in ("scored", "sums", "squares")
    }
    return replace(look, timeline=replace(bins, **parts))


def falls(look: Look, *, recovered: tuple[str, str, str] | None = None) -> tuple[Fall, ...]:
    onset_ms = float(END - 120 * MINUTE_MS)
    onset = FallOnset(onset_ms, onset_ms - 4e5, onset_ms + 4e5, by_panes=True)
    fell = [series for series in look.series if series[2] == "RR@10" and series[1] != "US"]
    over_ms = float(END - 40 * MINUTE_MS)
    return tuple(
        (
            Fall(s, int(onset_ms), onset, ("hour",), END - HOUR_MS, onset_ms)
            if s != recovered
            else Fall(s, int(onset_ms), onset, ("hour",), END - HOUR_MS, onset_ms, over_ms)
        )
        for s in fell
    )


def left(look: Look, found: tuple[Fall, ...]) -> set[str]:
    """The segments that are told as open."""
    faults = kept_together(found, Levels(look, look.timeline)).faults
    return {fall.series[1] for fault in faults for fall in fault.open}


def test_what_fell_with_a_segment_is_over_when_that_has_recovered() -> None:
    look = repaired(40, only(country="DE", rank=0.3))
    assert left(look, falls(look, recovered=DE)) == set()


def test_what_is_still_low_is_told_on() -> None:
    look = repaired(40, only(country="DE", rank=0.3))
    both, _ = site(only(device="ios", rank=0.3), 120 * MINUTE_MS)
    ios = look.series.index(("device", "ios", "RR@10"))
    look.timeline.sums[:, ios] = both.timeline.sums[:, ios]
    look.timeline.scored[:, ios] = both.timeline.scored[:, ios]
    look.timeline.squares[:, ios] = both.timeline.squares[:, ios]
    assert left(look, falls(look, recovered=DE)) == {"ios"}


def test_a_shallow_fall_that_recovers_ends_no_deeper_one() -> None:
    look = repaired(40, only(country="DE", rank=0.3))
    web = ("device", "web", "RR@10")
    assert {"DE", "all"} <= left(look, falls(look, recovered=web))


def test_without_a_recovery_all_is_told() -> None:
    look = repaired(0, only(country="DE", rank=0.3))
    found = falls(look)
    assert left(look, found) == {fall.series[1] for fall in found}


def test_for_ten_minutes_behind_a_recovery_nothing_is_told_of_the_rest() -> None:
    look = repaired(45, only(country="DE", rank=0.3))
    earlier = look.timeline.first(len(look.timeline.starts) - 20)
    seen = replace(look, timeline=earlier)
    found = falls(seen, recovered=DE)
    assert seen.end_ms == END - 40 * MINUTE_MS
    now = kept_together(found, Levels(seen, seen.timeline))
    assert [fault.open for fault in now.faults] == [()]
    assert now.falls == found, "nothing is decided of the others"


def test_what_is_over_is_told_as_over_only_when_the_deepest_is() -> None:
    look = repaired(40, only(country="DE", rank=0.3))
    web = ("device", "web", "RR@10")
    for recovered, over in ((web, set()), (DE, {"DE", "all", "ios", "web", "android"})):
        levels = Levels(look, look.timeline)
        (fault,) = kept_together(falls(look, recovered=recovered), levels).faults
        assert {fall.series[1] for fall in fault.over} >= over
        assert bool(fault.over) == bool(over)


def call(series: tuple[str, str, str], at_ms: float, width_ms: float = 4e5) -> FallCall:
    onset = FallOnset(at_ms, at_ms - width_ms, at_ms + width_ms, by_panes=True)
    return FallCall("weeks", series, onset)


def test_a_window_that_contains_a_fault_that_is_over_opens_nothing() -> None:
    look = repaired(60, only(country="DE", rank=0.3))
    (de,) = (fall for fall in falls(look, recovered=DE) if fall.series == DE)
    late = call(("all", "all", "RR@10"), END - 119.0 * MINUTE_MS)
    now = followed([de], look, look.timeline, [late])
    assert [fall.series for fall in now.falls] == [DE]
    broken = repaired(0, only(country="DE", rank=0.3))
    again = followed([de], broken, broken.timeline, [late])
    assert [fall.series[1] for fall in again.falls] == ["DE", "all"], "that is low since then"


def test_a_fall_that_is_dated_before_a_larger_fault_without_being_low_then_is_of_it() -> None:
    look = repaired(0, only(country="DE", rank=0.3))
    early = END - 200.0 * MINUTE_MS
    onset = FallOnset(early, early - 4e5, early + 4e5, by_panes=True)
    ios = Fall(("device", "ios", "nDCG@10"), int(early), onset, ("hour",), END - 60_000, early)
    (fault,) = kept_together((*falls(look), ios), Levels(look, look.timeline)).faults
    assert ios in fault.open
    before = replace(ios, called_ms=END - 150 * MINUTE_MS)
    faults = kept_together((*falls(look), before), Levels(look, look.timeline)).faults
    assert len(faults) == 2, "one that was called before it began is not"


def test_falls_hours_apart_are_not_joined_by_a_wide_interval_between_them() -> None:
    look = repaired(0, only(country="DE", rank=0.3))
    first, second = END - 200.0 * MINUTE_MS, END - 20.0 * MINUTE_MS
    made = [
        Fall(series, int(at), FallOnset(at, at - wide, at + wide, True), ("hour",), END, at)
        for series, at, wide in (
            (DE, first, 3e5),
            (("country", "FR", "RR@10"), second, 3e5),
            (("all", "all", "RR@10"), (first + second) / 2, 9e6),
        )
    ]
    faults = kept_together(made, Levels(look, look.timeline)).faults
    assert sorted(len(fault.open) for fault in faults) == [1, 2]


def fall(
    series: tuple[str, str, str],
    at_ms: float,
    width_ms: float = 4e5,
    low_since_ms: float | None = None,
    recovered_ms: float | None = None,
) -> Fall:
    onset = FallOnset(at_ms, at_ms - width_ms, at_ms + width_ms, by_panes=True)
    since_ms = at_ms if low_since_ms is None else low_since_ms
    return Fall(series, int(at_ms), onset, ("hour",), END - HOUR_MS, since_ms, recovered_ms)


def test_a_score_that_fell_again_is_over_with_the_fault_that_lowered_it() -> None:
    look = repaired(40, only(country="DE", rank=0.3))
    former, began, repair = (END - minutes * 60_000.0 for minutes in (200, 120, 40))
    known = [
        fall(("country", "FR", "RR@10"), former, recovered_ms=former + 30 * MINUTE_MS),
        fall(("all", "all", "RR@10"), former, low_since_ms=began + 10 * MINUTE_MS),
        fall(DE, began, recovered_ms=repair),
    ]
    assert left(look, tuple(known)) == set()
    still, _ = site(only(rank=0.3), 120 * MINUTE_MS)
    assert left(still, tuple(known)) == {"all"}, "it is low since then"


def test_falls_of_one_segment_around_the_end_of_another_fault_are_told_as_one() -> None:
    repair = END - 60.0 * MINUTE_MS
    look, _ = site(only(country="FR", rank=0.3), 60 * MINUTE_MS)
    of_de = [
        fall(("country", "DE", metric), repair - HOUR_MS, recovered_ms=repair)
        for metric in ("RR@10", "Success@10", "nDCG@10")
    ]
    of_fr = [
        fall(("country", "FR", "RR@10"), repair - 3 * MINUTE_MS, 15.0 * MINUTE_MS),
        fall(("country", "FR", "nDCG@10"), repair + 9 * MINUTE_MS, 12.0 * MINUTE_MS),
    ]
    faults = kept_together([*of_de, *of_fr], Levels(look, look.timeline)).faults
    (told,) = (fault for fault in faults if fault.open)
    assert {each.series for each in told.open} == {each.series for each in of_fr}
