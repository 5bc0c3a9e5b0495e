"""An experiment's findings in words. Pure."""

from collections.abc import Collection, Iterator, Mapping
from typing import Final

from relevanced.metrics.buckets import MINIMUM_BUCKETS
from relevanced.metrics.inference import ArmComparison, Undefined
from relevanced.metrics.sample_ratio import ALARM_LOG_EVALUE

from .specs import Spec

OUT_OF_SIGHT: Final = 10
"""Times the planned traffic: no number beyond that is of use to anybody."""
CROSSOVER_SHARE: Final = 0.01
"""Of the users seen in two variants: more than that dilutes what the difference is."""


def in_words(found: ArmComparison, planned_impressions: int) -> str:
    """The verdict, and what is still missing for one."""
    if found.undefined is not None:
        return f"no statement: {found.undefined}"
    absolute = found.absolute
    if absolute.verdict != "undecided":
        return absolute.verdict
    if absolute.interval.lower > 0.0 or absolute.interval.upper < 0.0:
        return "different, and the metric says neither better nor worse"
    more = absolute.further_impressions
    if more > OUT_OF_SIGHT * planned_impressions:
        return "not distinguishable yet, nor with ten times the planned traffic if it stays so"
    return f"not distinguishable yet: takes about {rounded(more)} more impressions as it is"


def rounded(count: float) -> str:
    """A number of impressions to two digits: no more of it is known."""
    digits = max(0, len(str(int(count))) - 2)
    return f"{round(int(count), -digits):,}"


def warnings_of(
    spec: Spec,
    *,
    control: str,
    without_control: bool,
    impressions: Mapping[str, int],
    without_unit: int,
    srm_log_evalue: float | None,
    users: float,
    crossover: float,
    undefined: Collection[Undefined | None],
) -> Iterator[str]:
    """What makes the numbers suspect, the worst first."""
    everything = sum(impressions.values())
    if not everything:
        yield "no impression of it has settled yet"
        return
    if without_control:
        yield f"no traffic in the control ({control}): nothing to compare with"
    if srm_log_evalue is not None and srm_log_evalue >= ALARM_LOG_EVALUE:
        yield (
            "users are not dealt to the variants as planned"
            f" (ln e = {srm_log_evalue:.1f}): nothing below can be trusted until that is explained"
        )
    if crossover > CROSSOVER_SHARE * users:
        yield f"{crossover:,.0f} users were seen in two variants or more: differences are diluted"
    if "too few buckets" in undefined:
        yield (
            f"fewer than {MINIMUM_BUCKETS:.0f} effective buckets of users in a variant:"
            " too few users, or one with much of the traffic"
        )
    if without_unit:
        share = 100 * without_unit / everything
        yield f"{share:.2g} % of the impressions do not tell {spec.unit}: left out"
    unplanned = sorted(set(impressions) - {name for name, _ in spec.weights})
    if spec.weights and unplanned:
        yield f"variants without a weight: {', '.join(unplanned)}"
