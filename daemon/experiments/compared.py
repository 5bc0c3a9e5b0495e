"""All comparisons of one experiment, and which of them hold up among all. Pure.

Among many comparisons some differ by chance. A verdict answers one question as if it were the only
one; a discovery holds up among all of them (e-BH, which needs no independence between them).
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TypeVar

import numpy as np

from relevanced.metrics.discoveries import discoveries

from .by_metric import MetricComparison
from .strata import Strata
from .types import SegmentFinding, Stratified, finite_or_none

Key = TypeVar("Key", bound=tuple[str, ...])


@dataclass(frozen=True)
class Compared:
    """Every variant against the control: variant → metric → comparison."""

    variants: Mapping[str, Mapping[str, MetricComparison]]
    by_segment: Mapping[str, Mapping[str, Strata]]
    """Empty for a variant without strata."""

    @cached_property
    def discovered(self) -> Mapping[tuple[str, str], bool]:
        """(variant, metric) → whether it is a discovery among all of them."""
        return among_all(
            {
                (variant, metric): comparison.log_evalue
                for variant, by_metric in self.variants.items()
                for metric, comparison in by_metric.items()
            }
        )

    @cached_property
    def discovered_segments(self) -> Mapping[tuple[str, str, str], bool]:
        """(variant, metric, segment) → whether it is a discovery among all of them."""
        return among_all(
            {
                (variant, metric, segment): comparison.absolute.log_evalue
                for variant, by_metric in self.by_segment.items()
                for metric, strata in by_metric.items()
                for segment, comparison in strata.segments.items()
            }
        )


def stratified(compared: Compared, variant: str, metric: str) -> Stratified | None:
    """The comparison by segments; None where the experiment has no strata."""
    strata = compared.by_segment[variant].get(metric)
    if strata is None:
        return None
    together = strata.together
    return Stratified(
        difference=finite_or_none(together.estimate.value),
        lower=finite_or_none(together.interval.lower),
        upper=finite_or_none(together.interval.upper),
        covered=finite_or_none(strata.covered),
        segments=tuple(
            SegmentFinding(
                segment=segment,
                difference=finite_or_none(comparison.absolute.estimate.value),
                lower=finite_or_none(comparison.absolute.interval.lower),
                upper=finite_or_none(comparison.absolute.interval.upper),
                log_evalue=finite_or_none(comparison.absolute.log_evalue),
                discovery=compared.discovered_segments[variant, metric, segment],
                verdict=comparison.absolute.verdict,
            )
            for segment, comparison in strata.segments.items()
        ),
    )


def among_all(log_evalues: Mapping[Key, float]) -> dict[Key, bool]:
    """Key → whether its evidence is a discovery among all of these."""
    found = discoveries(np.array([*log_evalues.values()])).tolist()
    return dict(zip(log_evalues, found, strict=True))
