"""Findings of an experiment in sentences for people. Pure."""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from relevanced.metrics.buckets import MINIMUM_BUCKETS
from relevanced.metrics.inference import ArmComparison, Undefined

from .merging import Merged
from .specs import CONTROLS, INTERLEAVED, units_of
from .types import SampleRatio
from .withholding import mismatched

OUT_OF_SIGHT: Final = 10
"""Beyond this many times the planned traffic an estimate of what is missing is of no use."""
BARE: Final = re.compile("[A-Za-z0-9_-]+")
"""Names that TOML takes as keys without quotes."""
CROSSOVER_SHARE: Final = 0.01
"""Share of users seen in two variants that is tolerated: more of them dilute the differences."""


@dataclass(frozen=True)
class Setting:
    """What the words about one comparison depend on besides its numbers."""

    unit: str
    planned_impressions: int
    control_without_unit: int
    """Impressions of the control that lack the unit."""
    variant_without_unit: int


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


def in_words(comparison: ArmComparison, setting: Setting) -> str:
    """The verdict, and how much traffic is missing for one."""
    if comparison.undefined is not None:
        return f"no statement: {_reason(comparison.undefined, setting)}"
    absolute = comparison.absolute
    if absolute.verdict != "undecided":
        return absolute.verdict
    if absolute.interval.lower > 0.0 or absolute.interval.upper < 0.0:
        return "different; for this metric neither direction is better"
    more = absolute.further_impressions
    if more > OUT_OF_SIGHT * setting.planned_impressions:
        return (
            "not distinguishable yet, and at this difference"
            " not with ten times the planned impressions either"
        )
    return f"not distinguishable yet: at this difference about {rounded(more)} more impressions"


def _reason(undefined: Undefined, setting: Setting) -> str:
    """Why there is no statement; an arm whose impressions all lack the unit has traffic."""
    lacking = {
        "no control traffic": ("control", setting.control_without_unit),
        "no treatment traffic": ("variant", setting.variant_without_unit),
    }
    arm, without_unit = lacking.get(undefined, ("", 0))
    if without_unit:
        return f"none of the {without_unit:,} impressions of the {arm} has a {setting.unit}"
    if undefined == "no worst value":
        return "a list for which it is undefined has no value; see the defined lists"
    return undefined


def rounded(count: float) -> str:
    """A number of impressions to two digits, which is as precise as the estimate is."""
    digits = max(0, len(str(int(count))) - 2)
    return f"{round(int(count), -digits):,}"


def percent(part: int, whole: int) -> str:
    """A share to two digits; 0 % and 100 % only where it is exactly that.

    >>> [percent(part, 100_000) for part in (0, 4, 4_321, 99_990, 100_000)]
    ['0 %', 'less than 0.1 %', '4.3 %', 'more than 99.9 %', '100 %']
    """
    share = 100 * part / whole
    if 0 < share < 0.1:
        return "less than 0.1 %"
    if 99.9 < share < 100:
        return "more than 99.9 %"
    return f"{share:.1f} %" if 0 < share < 10 or 99 < share < 100 else f"{share:.0f} %"


def warnings_of(experiment: Merged, checks: Checks) -> Iterator[str]:
    """Yield the reasons not to trust the numbers, the gravest first."""
    spec, impressions = experiment.spec, experiment.impressions
    units = units_of(spec.unit)
    if not impressions:
        yield "no impression has settled yet"
        return
    if experiment.without_control:
        yield _without_control(experiment)
    if checks.srm is not None and mismatched(checks.srm):
        yield (
            f"{units} are not assigned to the variants as planned"
            f" (ln e = {checks.srm.log_evalue:.1f}): verdicts are withheld; do not trust any number"
            " below until the cause is known"
        )
    if checks.crossover_users > CROSSOVER_SHARE * checks.users:
        yield (
            f"{checks.crossover_users:,.0f} {units} were seen in two variants or more:"
            " differences are diluted"
        )
    if "too few buckets" in checks.undefined:
        yield (
            f"fewer than {MINIMUM_BUCKETS:.0f} effective buckets of {units} in a variant:"
            f" too few {units}, or one with much of the traffic"
        )
    without_unit = sum(arm.without_unit for arm in experiment.arms.values())
    if without_unit:
        share = percent(without_unit, impressions)
        yield f"{share} of the impressions have no {spec.unit} and are left out"
    unplanned = sorted(set(experiment.arms) - {name for name, _ in spec.weights})
    if spec.weights and unplanned:
        yield f"variants without a weight: {', '.join(unplanned)}"


def _without_control(experiment: Merged) -> str:
    """That there is nothing to compare with, and how to say what the control is."""
    spec = experiment.spec
    others = sorted(set(experiment.arms) - {INTERLEAVED, experiment.control})
    name = spec.name if BARE.fullmatch(spec.name) else json.dumps(spec.name, ensure_ascii=False)
    section = f"[experiments.{name}]"
    if spec.declared:
        return (
            f"no traffic in the control ({experiment.control}): nothing to compare with; if one of"
            f" {', '.join(others)} is the control, name it as `control` under {section}"
        )
    return (
        f"no variant is called {', '.join(CONTROLS[:-1])} or {CONTROLS[-1]}: nothing to compare"
        f" with; if one of {', '.join(others)} is the control, name it as `control` under {section}"
    )
