"""The families of judged scores: windows, the last hours beside earlier ones, and the files that
graded them."""

from dataclasses import dataclass
from typing import Final

from .family import SEGMENT, Family, gauge, of_process

_LABELS: Final = (*SEGMENT, "window")
_IN_WINDOW: Final = (
    "over the window that ends where judged scores are final, which wait for no feedback"
)
_SINCE: Final = "A window that is longer than the file has been in force begins with it."
_RECENT: Final = f"{_IN_WINDOW}. Absent where the file began within the window, or lanes disagree"
_BASELINE: Final = (
    "over the same period of the last three weeks on average; of the last days, or hours, while "
    "the file has not been in force for so long. Absent without hours that the same file graded"
)

JUDGED_SCORE: Final = gauge(
    "judged_score",
    ("metric", *_LABELS),
    "Mean of the metric by the judgements in force, over the impressions whose query they judge, "
    f"{_IN_WINDOW}. {_SINCE} Another measure than relevanced_score, also under the same name.",
)
JUDGED_SCORE_STDERR: Final = gauge(
    "judged_score_stderr",
    ("metric", *_LABELS),
    "Standard error of relevanced_judged_score, as if impressions were independent. Absent below "
    "two scored impressions.",
)
JUDGED_SCORED_IMPRESSIONS: Final = gauge(
    "judged_scored_impressions",
    ("metric", *_LABELS),
    "Impressions that relevanced_judged_score is the mean of.",
)
JUDGED_IMPRESSIONS: Final = gauge(
    "judged_impressions", _LABELS, f"Impressions whose query is judged, {_IN_WINDOW}. {_SINCE}"
)
JUDGED_ITEMS_SHARE: Final = gauge(
    "judged_items_share",
    _LABELS,
    "Share of the first places of their lists, as deep as the deepest judged metric, whose item "
    'is judged. Below 0.6 a judged score says little; with judgements.unjudged = "zero" it is a '
    "lower bound.",
)
JUDGED_UNTIL: Final = gauge(
    "judged_until_timestamp_seconds",
    (),
    "Event time at which the windows of judged scores end: all before is final.",
)
JUDGED_SINCE: Final = gauge(
    "judged_since_timestamp_seconds",
    (),
    "Event time since when all lanes have graded by the files of now: nothing before is compared "
    "with what follows. Absent where no file is in force.",
)
JUDGEMENTS_MIXED: Final = gauge(
    "judgements_mixed",
    (),
    "1 while the lanes grade by different files, because some refused one: judged scores are shown "
    "and compared with nothing. Absent where no file is in force.",
)
JUDGEMENTS_REFUSED: Final = gauge(
    "judgements_refused_lanes",
    ("name", "start"),
    "Lanes that refused this file of judgements, because they had read an event that it would have "
    "graded before they could know it.",
)
JUDGED_BASELINE_PERIODS: Final = gauge(
    "judged_baseline_periods",
    ("window", "unit"),
    "How many earlier weeks, days or hours the baseline of judged scores is averaged over.",
)
JUDGEMENTS_INFO: Final = of_process(
    "judgements_info",
    "gauge",
    ("name", "sha256", "start"),
    "1 for each file of judgements that is in force by the clock or starts later, and that this "
    "process has read: processes must have the same, or their lanes may grade differently.",
)


@dataclass(frozen=True)
class JudgedPeriod:
    """The families of one side of the comparison."""

    score: Family
    score_stderr: Family
    scored_impressions: Family
    impressions: Family
    items_share: Family

    @property
    def all(self) -> tuple[Family, ...]:
        """Every family of this side, in the order of the table."""
        of_scores = (self.score, self.score_stderr, self.scored_impressions)
        return (*of_scores, self.impressions, self.items_share)


def _families(side: str, when: str) -> JudgedPeriod:
    score = gauge(
        f"{side}_judged_score", ("metric", *_LABELS), f"Mean of the judged metric {when}."
    )
    return JudgedPeriod(
        score=score,
        score_stderr=gauge(
            f"{side}_judged_score_stderr",
            ("metric", *_LABELS),
            f"Standard error of {score.name}, as if impressions were independent. That of a mean "
            "of three periods or more is not below the standard error of their differences.",
        ),
        scored_impressions=gauge(
            f"{side}_judged_scored_impressions",
            ("metric", *_LABELS),
            f"Impressions for which the judged metric is defined, {when}.",
        ),
        impressions=gauge(
            f"{side}_judged_impressions", _LABELS, f"Impressions whose query is judged, {when}."
        ),
        items_share=gauge(
            f"{side}_judged_items_share",
            _LABELS,
            f"Share of the first places of their lists whose item is judged, {when}.",
        ),
    )


JUDGED_RECENT: Final = _families("recent", _RECENT)
JUDGED_BASELINE: Final = _families("baseline", _BASELINE)

OF_JUDGED: Final = (
    JUDGED_SCORE,
    JUDGED_SCORE_STDERR,
    JUDGED_SCORED_IMPRESSIONS,
    JUDGED_IMPRESSIONS,
    JUDGED_ITEMS_SHARE,
    *JUDGED_RECENT.all,
    *JUDGED_BASELINE.all,
    JUDGED_BASELINE_PERIODS,
    JUDGED_UNTIL,
    JUDGED_SINCE,
    JUDGEMENTS_MIXED,
    JUDGEMENTS_REFUSED,
)
"""Of the snapshot; JUDGEMENTS_INFO is of each process."""
