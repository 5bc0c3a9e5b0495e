"""The reasons not to trust the numbers of an experiment, in words, the gravest first. Pure."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

from relevanced.metrics import MINIMUM_BUCKETS, Undefined

from .exclusion import instant_text
from .share_periods import day_name, is_planned
from .spec import (
    CONTROLS,
    INTERLEAVED,
    MOST_STRATA,
    MOST_VARIANTS,
    Spec,
    declare_ramp,
    section_of,
    units_of,
)
from .tallies import MergedTallies
from .types import BusyUnit, SampleRatio, mismatched
from .verdicts import percent

MOST_NAMED: Final = 5
"""Units, or segments, that warnings name."""
MUCH: Final = 0.05
"""Share of an arm from which on a unit is warned of even if all verdicts hold without it."""
CROSSOVER_SHARE: Final = 0.01
"""Share of users seen in two variants that is tolerated: more of them dilute the differences."""


@dataclass(frozen=True)
class CountingLanes:
    """Of how many lanes the tallies are."""

    counted: int
    """Those that count the experiment."""
    without_room: int = 0
    """Those that do not, and count as many undeclared ones as there may be."""
    partial: Sequence[str] = ()
    """Segments with tallies of their own in some lanes, and within the rest in others."""
    begun_anew: int = 0
    """Those that began anew, and may have lost what they had counted before."""
    lost_before_ms: int = 0
    """The latest instant from which on one of these counts."""
    dropped: int = 0
    """Those that may have dropped it as silent, which others did not."""
    dropped_before_ms: int = 0
    """The latest instant before which one of these may have counted some of it."""
    without_arms: int = 0
    """Those that count no more variants."""


@dataclass(frozen=True)
class Checks:
    """What the warnings of an experiment depend on besides its arms."""

    srm: SampleRatio | None
    users: float
    """Estimated users of all variants."""
    crossover_users: float
    """Estimated users seen in two variants or more."""
    undefined: frozenset[Undefined | None]
    """Why comparisons have no result; None for those that have one."""
    busiest: Sequence[BusyUnit]
    verdicts_hang_on_them: bool
    """Whether one of the primary metric or a guardrail is another without them."""
    lanes: CountingLanes
    untested: Sequence[str] = ()
    """Variants with hardly any users, where no shares are planned."""


def warnings_of(experiment: MergedTallies, checks: Checks) -> Iterator[str]:
    """Yield the reasons not to trust the numbers, the gravest first."""
    spec, impressions = experiment.spec, experiment.impressions
    units = units_of(spec.unit)
    planned = {name for name, _ in spec.weights_since(experiment.shares_since_ms)}
    if not impressions:
        yield "no impression has settled yet"
        yield from _begun_anew(checks.lanes)
        return
    if experiment.without_control and experiment.arms.keys() - {INTERLEAVED}:
        yield _without_control(experiment)
    yield from _teams(experiment)
    if checks.srm is not None and mismatched(checks.srm):
        within = f" within {spec.stratify_by}={checks.srm.segment}" if checks.srm.segment else ""
        yield (
            f"{units} are not assigned to the variants as planned{within}"
            f" (ln e = {checks.srm.log_evalue:.1f}): verdicts are withheld; do not trust any number"
            f" below until the cause is known; {declare_ramp(spec) if planned else _alike(spec)}"
        )
    yield from _beyond_end(experiment)
    yield from _missed(experiment)
    yield from _begun_anew(checks.lanes)
    yield from _in_some_lanes(spec, checks.lanes)
    yield from _absent(experiment, checks)
    yield from _without_arms(experiment, checks.lanes)
    if checks.untested:
        yield (
            f"hardly any {units} have {', '.join(map(repr, checks.untested))}: whether they are"
            f" assigned as planned is tested without, and no verdict on it is given; {_alike(spec)}"
        )
    if checks.crossover_users > CROSSOVER_SHARE * checks.users:
        yield (
            f"{checks.crossover_users:,.0f} {units} were seen in two variants or more:"
            " differences are diluted"
        )
    yield from _busy(spec, checks)
    yield from _summed(experiment)
    if "too few buckets" in checks.undefined:
        yield (
            f"fewer than {MINIMUM_BUCKETS:.0f} effective buckets of {units} in a variant:"
            f" too few {units}, or one with much of the traffic"
        )
    without_unit = sum(arm.without_unit for arm in experiment.arms.values())
    if without_unit:
        share = percent(without_unit, impressions)
        yield f"{share} of the impressions have no {spec.unit} and are left out"
    unplanned = sorted(experiment.arms.keys() - planned)
    if planned and unplanned:
        yield f"variants without a weight: {', '.join(unplanned)}"


def _alike(spec: Spec) -> str:
    """What to do about shares that are not planned."""
    return f"all variants are taken to get equal shares: {_set_weights(spec)}"


def _set_weights(spec: Spec) -> str:
    return f"set weights under [{section_of(spec)}] to those that are meant"


def _beyond_end(experiment: MergedTallies) -> Iterator[str]:
    end_ms = experiment.spec.end_ms
    if experiment.beyond_end and end_ms is not None:
        yield (
            f"up to {experiment.beyond_end:,} impressions from the end ({instant_text(end_ms)}) on"
            " had been counted before it was set: they stay; a replay of recorded events leaves"
            " them out"
        )


def _missed(experiment: MergedTallies) -> Iterator[str]:
    for from_ms, until_ms in sorted(experiment.missed.items()):
        until = f"to {instant_text(until_ms)}" if until_ms else "on"
        yield (
            f"impressions from {instant_text(from_ms)} {until} are not counted: the end, which was"
            " then, was moved after they had settled; a replay of recorded events counts them"
        )


def _begun_anew(lanes: CountingLanes) -> Iterator[str]:
    if lanes.begun_anew:
        which = "a lane" if lanes.begun_anew == 1 else f"{lanes.begun_anew} lanes"
        yield (
            f"{which} began anew: what was counted there before"
            f" {instant_text(lanes.lost_before_ms)} is lost, and impressions, users and days lack"
            " it"
        )


def _in_some_lanes(spec: Spec, lanes: CountingLanes) -> Iterator[str]:
    if lanes.without_room:
        yield (
            f"counted in {lanes.counted} of {lanes.counted + lanes.without_room} lanes: the others"
            f" have no room for one more undeclared experiment; declare [{section_of(spec)}]"
        )
    if lanes.dropped:
        which = "a lane" if lanes.dropped == 1 else f"{lanes.dropped} lanes"
        yield (
            f"{which} may lack what was counted before {instant_text(lanes.dropped_before_ms)}:"
            " undeclared experiments that are silent for a week make room for new ones, in each"
            f" lane by itself; declare [{section_of(spec)}]"
        )
    if lanes.partial:
        more = len(lanes.partial) - MOST_NAMED
        named = ", ".join(lanes.partial[:MOST_NAMED]) + (f" and {more} more" if more > 0 else "")
        yield (
            f"{named} of {spec.stratify_by} are counted by themselves in some lanes only, in others"
            f" with the rest: a lane has room for {MOST_STRATA} segments"
        )


def _absent(experiment: MergedTallies, checks: Checks) -> Iterator[str]:
    spec = experiment.spec
    planned = dict(spec.weights_since(experiment.shares_since_ms))
    for variant, weight in planned.items():
        if variant not in experiment.arms:
            expected = checks.users * weight / sum(planned.values())
            yield (
                f"{variant} has no traffic: of {checks.users:,.0f} {units_of(spec.unit)} it was to"
                f" get {expected:,.0f}"
            )


def _without_arms(experiment: MergedTallies, lanes: CountingLanes) -> Iterator[str]:
    if lanes.without_arms:
        which = "a lane counts" if lanes.without_arms == 1 else f"{lanes.without_arms} lanes count"
        spec = experiment.spec
        yield (
            f"{which} {MOST_VARIANTS} variants, and no further name: impressions with another one"
            " are left out, as relevanced_experiment_overflow_impressions_total counts"
            f"{'' if spec.weights else f'; {_set_weights(spec)}'}"
        )


def _summed(experiment: MergedTallies) -> Iterator[str]:
    """Changes of shares that may be within days of which only the sum is left."""
    spec, until_ms = experiment.spec, experiment.summed_until_ms
    for variant, periods in experiment.periods.items():
        for earlier, later in pairwise(periods):
            known = earlier.last_ms != until_ms or is_planned(earlier, later, experiment, variant)
            if not known:
                yield (
                    f"only the sum of the days up to {day_name(until_ms)} is known, and then the"
                    f" share of {variant} was another: differences are biased if it changed within"
                    f" them; {declare_ramp(spec)} before it"
                )


def _busy(spec: Spec, checks: Checks) -> Iterator[str]:
    units = [one for one in checks.busiest if checks.verdicts_hang_on_them or one.share > MUCH]
    for one in units[:MOST_NAMED]:
        yield (
            f"unit {one.unit} has {100 * one.share:.1f} % of the impressions of {one.variant}: see"
            f" the differences without it, or set daily_cap under [{section_of(spec)}]"
        )


def _teams(experiment: MergedTallies) -> Iterator[str]:
    """Interleaved lists that compare nothing."""
    spec, (left_out, lists) = experiment.spec, experiment.lists_without_teams
    if not left_out:
        return
    called = spec.control if spec.declared else f"{', '.join(CONTROLS[:-1])} or {CONTROLS[-1]}"
    if left_out < lists:
        yield (
            f"{percent(left_out, lists)} of the interleaved lists do not name both a team called"
            f" {called} and another one: they are left out"
        )
        return
    yield (
        f"none of the {lists:,} interleaved lists names both a team called {called} and another"
        " one: nothing to compare; name the team of the control as `control` under"
        f" [{section_of(spec)}]"
    )


def _without_control(experiment: MergedTallies) -> str:
    spec = experiment.spec
    others = sorted(set(experiment.arms) - {INTERLEAVED, experiment.control})
    section = f"[{section_of(spec)}]"
    if spec.declared:
        return (
            f"no traffic in the control ({experiment.control}): nothing to compare with; if one of"
            f" {', '.join(others)} is the control, name it as `control` under {section}"
        )
    return (
        f"no variant is called {', '.join(CONTROLS[:-1])} or {CONTROLS[-1]}: nothing to compare"
        f" with; if one of {', '.join(others)} is the control, name it as `control` under {section}"
    )
