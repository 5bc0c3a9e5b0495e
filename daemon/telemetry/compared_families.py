"""The families of the last hours and of their baselines, the same nine for each. Pure."""

from dataclasses import dataclass
from typing import Final

from .family import SEGMENT, Family, gauge

_RECENT: Final = "over the window that ends where no feedback can change it any more"
_BASELINE: Final = (
    "over the same period of the last three weeks (of the last days, while there are no weeks "
    "yet), on average, outages left out"
)


@dataclass(frozen=True)
class PeriodFamilies:
    """The families of one side of the comparison."""

    score: Family
    score_stderr: Family
    scored_impressions: Family
    counts: tuple[Family, Family, Family, Family]
    """Of impressions, of those with feedback, of those without a result, and of items with
    feedback."""
    list_length: Family
    list_length_stderr: Family

    @property
    def all(self) -> tuple[Family, ...]:
        """Every family of this side, in the order of the table."""
        of_scores = (self.score, self.score_stderr, self.scored_impressions)
        return (*of_scores, *self.counts, self.list_length, self.list_length_stderr)


def _families(side: str, when: str) -> PeriodFamilies:
    labels = (*SEGMENT, "window")
    score = gauge(
        f"{side}_score", ("metric", *labels), f"Mean of the search-quality metric {when}."
    )
    length = gauge(
        f"{side}_list_length",
        labels,
        f"Mean number of items of a result list, empty lists and later pages included, {when}.",
    )
    return PeriodFamilies(
        score=score,
        score_stderr=gauge(
            f"{side}_score_stderr",
            ("metric", *labels),
            f"Standard error of {score.name}, as if impressions were independent. That of a "
            "mean of three periods or more is not below the standard error of their differences.",
        ),
        scored_impressions=gauge(
            f"{side}_scored_impressions",
            ("metric", *labels),
            f"Impressions for which the metric is defined, {when}.",
        ),
        counts=(
            gauge(f"{side}_impressions", labels, f"Impressions {when}."),
            gauge(
                f"{side}_impressions_with_feedback", labels, f"Impressions with feedback {when}."
            ),
            gauge(
                f"{side}_zero_result_impressions", labels, f"Impressions without a result {when}."
            ),
            gauge(f"{side}_feedback", labels, f"Items with feedback {when}."),
        ),
        list_length=length,
        list_length_stderr=gauge(
            f"{side}_list_length_stderr",
            labels,
            f"Standard error of {length.name}, as that of a score is computed.",
        ),
    )


RECENT: Final = _families("recent", _RECENT)
BASELINE: Final = _families("baseline", _BASELINE)
