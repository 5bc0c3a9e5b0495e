"""All that an experiment compares, and what of it stands together. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TypeVar

import numpy as np

from relevanced.metrics.discoveries import discoveries
from relevanced.metrics.inference import ArmComparison

from .strata import Strata
from .types import SegmentFinding, Stratified, finite_or_none

Key = TypeVar("Key", bound=tuple[str, ...])


@dataclass(frozen=True)
class Compared:
    """Everything that is compared, by variant and metric; and what of it stands together."""

    variants: Mapping[str, Mapping[str, ArmComparison]]
    by_segment: Mapping[str, Mapping[str, Strata]]

    @cached_property
    def discovered(self) -> Mapping[tuple[str, str], bool]:
        """By (variant, metric)."""
        return among_all(
            {
                (variant, metric): found.absolute.log_evalue
                for variant, of_metric in self.variants.items()
                for metric, found in of_metric.items()
            }
        )

    @cached_property
    def discovered_segments(self) -> Mapping[tuple[str, str, str], bool]:
        """By (variant, metric, segment)."""
        return among_all(
            {
                (variant, metric, segment): found.absolute.log_evalue
                for variant, of_metric in self.by_segment.items()
                for metric, strata in of_metric.items()
                for segment, found in strata.segments.items()
            }
        )


def stratified(told: Compared, variant: str, metric: str) -> Stratified | None:
    """What is told by segment; None where nothing is."""
    strata = told.by_segment[variant].get(metric)
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
                difference=finite_or_none(found.absolute.estimate.value),
                lower=finite_or_none(found.absolute.interval.lower),
                upper=finite_or_none(found.absolute.interval.upper),
                log_evalue=finite_or_none(found.absolute.log_evalue),
                discovery=told.discovered_segments[variant, metric, segment],
                verdict=found.absolute.verdict,
            )
            for segment, found in strata.segments.items()
        ),
    )


def among_all(evidence: Mapping[Key, float]) -> dict[Key, bool]:
    """Which of these may be called out together."""
    found = discoveries(np.array([*evidence.values()])).tolist()
    return dict(zip(evidence, found, strict=True))
