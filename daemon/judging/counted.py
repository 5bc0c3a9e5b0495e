"""The counts of segments along event time, beside their scores: patterns are recognised by them.
Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import sqrt
from typing import Final

import numpy as np

from relevanced.metrics.lists import Floats

from .evidence import UNKNOWN, Side

COUNTS: Final = (
    "impressions",
    "impressions_with_feedback",
    "zero_result_impressions",
    "items_with_feedback",
    "items_listed",
    "squared_items_listed",
)
"""The columns of `Counts.values` of feedback, in their order."""


@dataclass(frozen=True, eq=False)
class Counts:
    """The counts in the bins of a timeline."""

    segments: Mapping[tuple[str, str], int]
    values: Floats
    """(bins, segments, `names`)."""
    names: Sequence[str] = COUNTS

    def summed(self, grouping: str, segments: Sequence[str], share: Floats) -> Mapping[str, float]:
        """The sums of some segments of one grouping over a stretch; `share` is (bins, 1)."""
        at = [self.segments[grouping, name] for name in segments]
        sums = np.tensordot(share[:, 0], self.values[:, at].sum(axis=1), axes=1)
        return dict(zip(self.names, sums.tolist(), strict=True))

    def judged_share(self, grouping: str, segments: Sequence[str], share: Floats) -> float | None:
        """The share of the places whose item is judged, of judged rows; None without any place."""
        sums = self.summed(grouping, segments, share)
        return sums["judged_places"] / sums["places"] if sums["places"] else None


def side_of(
    counts: Mapping[str, float], success: tuple[float, float], rr: tuple[float, float]
) -> Side:
    """One side of the comparison; scores are (mean, standard error for independent
    impressions)."""
    impressions = counts["impressions"]
    length, error = UNKNOWN, UNKNOWN
    if impressions > 1 and counts["items_listed"]:
        length = counts["items_listed"] / impressions
        spread = max(counts["squared_items_listed"] / impressions - length**2, 0.0)
        error = sqrt(spread / impressions)
    return Side(
        impressions=impressions,
        with_feedback=counts["impressions_with_feedback"],
        feedback=counts["items_with_feedback"],
        zero_results=counts["zero_result_impressions"],
        success=success[0],
        success_stderr=success[1],
        rr=rr[0],
        rr_stderr=rr[1],
        list_length=length,
        list_length_stderr=error,
    )
