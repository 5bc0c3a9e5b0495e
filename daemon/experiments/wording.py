"""Findings of an experiment in sentences for people. Pure."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from relevanced.metrics.buckets import MINIMUM_BUCKETS
from relevanced.metrics.inference import ArmComparison, Undefined
from relevanced.metrics.sample_ratio import ALARM_LOG_EVALUE

from .merging import Merged
from .types import SampleRatio

OUT_OF_SIGHT: Final = 10
"""Beyond this many times the planned traffic an estimate of what is missing is of no use."""
CROSSOVER_SHARE: Final = 0.01
"""Share of users seen in two variants that is tolerated: more of them dilute the differences."""


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


def in_words(comparison: ArmComparison, planned_impressions: int) -> str:
    """The verdict, and how much traffic is missing for one."""
    if comparison.undefined is not None:
        return f"no statement: {comparison.undefined}"
    absolute = comparison.absolute
    if absolute.verdict != "undecided":
        return absolute.verdict
    if absolute.interval.lower > 0.0 or absolute.interval.upper < 0.0:
        return "different; for this metric neither direction is better"
    more = absolute.further_impressions
    if more > OUT_OF_SIGHT * planned_impressions:
        return (
            "not distinguishable yet, and at this difference"
            " not with ten times the planned impressions either"
        )
    return f"not distinguishable yet: at this difference about {rounded(more)} more impressions"


def rounded(count: float) -> str:
    """A number of impressions to two digits, which is as precise as the estimate is."""
    digits = max(0, len(str(int(count))) - 2)
    return f"{round(int(count), -digits):,}"


def warnings_of(experiment: Merged, checks: Checks) -> Iterator[str]:
    """Yield the reasons not to trust the numbers, the gravest first."""
    spec, impressions = experiment.spec, experiment.impressions
    if not impressions:
        yield "no impression has settled yet"
        return
    if experiment.without_control:
        yield f"no traffic in the control ({experiment.control}): nothing to compare with"
    if checks.srm is not None and checks.srm.log_evalue >= ALARM_LOG_EVALUE:
        yield (
            "users are not assigned to the variants as planned"
            f" (ln e = {checks.srm.log_evalue:.1f}): do not trust any number below until the cause"
            " is known"
        )
    if checks.crossover_users > CROSSOVER_SHARE * checks.users:
        yield (
            f"{checks.crossover_users:,.0f} users were seen in two variants or more:"
            " differences are diluted"
        )
    if "too few buckets" in checks.undefined:
        yield (
            f"fewer than {MINIMUM_BUCKETS:.0f} effective buckets of users in a variant:"
            " too few users, or one user with much of the traffic"
        )
    without_unit = sum(arm.without_unit for arm in experiment.arms.values())
    if without_unit:
        share = 100 * without_unit / impressions
        yield f"{share:.2g} % of the impressions have no {spec.unit} and are left out"
    unplanned = sorted(set(experiment.arms) - {name for name, _ in spec.weights})
    if spec.weights and unplanned:
        yield f"variants without a weight: {', '.join(unplanned)}"
