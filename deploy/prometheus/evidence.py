"""The recording rules of the numbers that distinguish patterns, as
`daemon.changes.evidence` computes them; a test feeds both with the same searches.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

INSTALLATION: Final = "cluster, namespace, job"


@dataclass(frozen=True)
class Rule:
    """One recording rule; `about` is the comment above it."""

    record: str
    expr: str
    about: str = ""
    labels: Mapping[str, str] | None = None


def _of(family: str, series: str) -> str:
    """A score, named by its parameters: RR@10 and Success@10 are both @10."""
    return (
        f'label_replace(relevanced:score:{series}{{metric=~"{family}\\\\b.*", window!="3h"}}, '
        f'"metric", "$1", "metric", "{family}(.*)")'
    )


def _noisy(change: str, variance: str, drift: str) -> str:
    """A change in its errors: sampling, widened by the design effect, and drift."""
    return f"""\
{change}
/ sqrt(
  {variance}
  * on ({INSTALLATION}) group_left () relevanced:design_effect
  + on ({INSTALLATION}, window) group_left () {drift}
)"""


MIX: Final = (
    Rule(
        "relevanced:score:recent_share",
        f"""\
(relevanced:score:recent_impressions{{grouping!="all", window!="3h"}}
  or relevanced:score:baseline_impressions{{grouping!="all"}} * 0)
/ on ({INSTALLATION}, metric, grouping, window) group_left ()
(sum by ({INSTALLATION}, metric, grouping, window)
  (relevanced:score:recent_impressions{{grouping!="all", window!="3h"}}) > 0)""",
    ),
    Rule(
        "relevanced:score:baseline_share",
        f"""\
(relevanced:score:baseline_impressions{{grouping!="all"}}
  or relevanced:score:recent_impressions{{grouping!="all", window!="3h"}} * 0)
/ on ({INSTALLATION}, metric, grouping, window) group_left ()
(sum by ({INSTALLATION}, metric, grouping, window)
  (relevanced:score:baseline_impressions{{grouping!="all"}}) > 0)""",
    ),
    Rule(
        "relevanced:score:change_within",
        """\
(relevanced:score:recent_share + relevanced:score:baseline_share) / 2
* (
  (relevanced:score:recent or relevanced:score:baseline)
  - (relevanced:score:baseline or relevanced:score:recent)
)""",
    ),
    Rule(
        "relevanced:score:change_mix",
        """\
(relevanced:score:recent_share - relevanced:score:baseline_share)
* (
  (relevanced:score:recent or relevanced:score:baseline)
  + (relevanced:score:baseline or relevanced:score:recent)
) / 2""",
    ),
    Rule(
        "relevanced:score:change_within:sum",
        f"sum by ({INSTALLATION}, metric, grouping, window) (relevanced:score:change_within)",
    ),
    Rule(
        "relevanced:score:change_mix:sum",
        f"sum by ({INSTALLATION}, metric, grouping, window) (relevanced:score:change_mix)",
    ),
    Rule(
        "relevanced:score:mix_share",
        "relevanced:score:change_mix:sum\n"
        "/ (relevanced:score:change_mix:sum + relevanced:score:change_within:sum)",
    ),
    Rule(
        "relevanced:mix:share",
        f"""\
max by ({INSTALLATION}, window) (
  (
    relevanced:score:mix_share{{metric=~"(RR|Success)\\\\b.*"}}
    or on ({INSTALLATION}, window) relevanced:score:mix_share
  )
  and on ({INSTALLATION}, metric, window) relevanced:score:z{{grouping="all"}} < -3
)""",
        "The largest share of the mix, of the metrics RR and Success where there are any.",
        {"grouping": "all", "segment": "all"},
    ),
)

EVIDENCE: Final = (
    Rule(
        "relevanced:drift:variance",
        f"""\
(1 + 1 / relevanced:baseline_periods) * (
  relevanced:weekday_drift:ratio ^ 2
  + on ({INSTALLATION}) group_left () relevanced:setting{{setting="drift_ratio"}} ^ 2
)""",
        "Relative variance of a score's own drift. That of a ratio within the same searches is a "
        "quarter of it.",
    ),
    Rule(
        "relevanced:success:pair",
        f"""\
topk without (metric) (1,
  {_of("Success", "baseline")}
  and {_of("RR", "baseline")}
)
or ignoring (metric) topk without (metric) (1, {_of("Success", "baseline")})""",
        "The deepest Success@k for which there is an RR@k, else the deepest. Its label `metric` is "
        "what follows the name, such as @10.",
    ),
    Rule(
        "relevanced:rr:pair",
        f"""\
{_of("RR", "baseline")}
and relevanced:success:pair
or ignoring (metric) topk without (metric) (1,
  {_of("RR", "baseline")}
  unless ignoring (metric) relevanced:success:pair
)""",
    ),
    Rule(
        "relevanced:success:recent",
        f"""\
max without (metric) ({_of("Success", "recent")} and relevanced:success:pair)
or relevanced:feedback_share:recent""",
        "Without a Success metric the share of impressions with feedback stands in.",
    ),
    Rule(
        "relevanced:success:baseline",
        "max without (metric) (relevanced:success:pair)\nor relevanced:feedback_share:baseline",
    ),
    Rule(
        "relevanced:success:recent_sampling",
        f"""\
max without (metric) (
  ({_of("Success", "recent_stderr")}
    / {_of("Success", "recent")}) ^ 2
  and relevanced:success:pair
)
or (1 - relevanced:feedback_share:recent)
  / (relevanced:feedback_share:recent * relevanced:impressions:recent)""",
        "Squared relative standard error, of the recent Success and of both.",
    ),
    Rule(
        "relevanced:success:sampling",
        f"""\
relevanced:success:recent_sampling
+ (
  max without (metric) (({_of("Success", "baseline_stderr")} / relevanced:success:pair) ^ 2)
  or (1 - relevanced:feedback_share:baseline)
    / (relevanced:feedback_share:baseline * relevanced:impressions:baseline
      * on ({INSTALLATION}, window) group_left () relevanced:baseline_periods)
)""",
    ),
    Rule(
        "relevanced:success:change",
        "ln(relevanced:success:recent / relevanced:success:baseline)",
    ),
    Rule(
        "relevanced:success:z",
        _noisy(
            "relevanced:success:change", "relevanced:success:sampling", "relevanced:drift:variance"
        ),
    ),
    Rule(
        "relevanced:rr:ratio",
        f"max without (metric) ({_of('RR', 'recent')} / relevanced:rr:pair)",
    ),
    Rule(
        "relevanced:shape:change",
        "ln(relevanced:rr:ratio) - relevanced:success:change",
        "RR is Success times shape, the mean of 1 / rank over the searches that succeed: what the "
        "relative variance of RR has beyond that of Success is that of the shape. Recent searches "
        "tell it for both sides.",
    ),
    Rule(
        "relevanced:shape:z",
        _noisy(
            "relevanced:shape:change",
            f"""\
clamp_min(
    max without (metric) (
      ({_of("RR", "recent_stderr")}
        / {_of("RR", "recent")}) ^ 2
      and relevanced:rr:pair
    )
    - relevanced:success:recent_sampling, 0
  )
  * relevanced:impressions:recent * relevanced:impressions:inverse""",
            "0.25 * relevanced:drift:variance",
        ),
    ),
    Rule(
        "relevanced:shape:share",
        "relevanced:shape:change / (relevanced:success:change + relevanced:shape:change < 0)",
    ),
    Rule(
        "relevanced:shape:success_ratio",
        "relevanced:shape:change / (relevanced:success:change < 0)",
    ),
    Rule(
        "relevanced:clicks_per_success:recent",
        """\
max without (instance, pod) (relevanced_recent_feedback)
/ (max without (instance, pod) (relevanced_recent_impressions_with_feedback) > 0)""",
        "Items with feedback per impression with feedback. Only counts are known of them: their "
        "variance is that of a geometric distribution of this mean.",
    ),
    Rule(
        "relevanced:clicks_per_success:baseline",
        """\
max without (instance, pod) (relevanced_baseline_feedback)
/ (max without (instance, pod) (relevanced_baseline_impressions_with_feedback) > 0)""",
    ),
    Rule(
        "relevanced:clicks_per_success:change",
        "ln(relevanced:clicks_per_success:recent / relevanced:clicks_per_success:baseline)",
    ),
    Rule(
        "relevanced:clicks_per_success:z",
        _noisy(
            "relevanced:clicks_per_success:change",
            f"""\
(1 - 2 / (relevanced:clicks_per_success:recent + relevanced:clicks_per_success:baseline))
  * (
    1 / (relevanced:feedback_share:recent * relevanced:impressions:recent)
    + 1 / (relevanced:feedback_share:baseline * relevanced:impressions:baseline
      * on ({INSTALLATION}, window) group_left () relevanced:baseline_periods)
  )""",
            "0.25 * relevanced:drift:variance",
        ),
    ),
    Rule(
        "relevanced:clicks_per_success:success_ratio",
        "relevanced:clicks_per_success:change / (relevanced:success:change < 0)",
    ),
    Rule(
        "relevanced:zero_result_share:explained_ratio",
        """\
(relevanced:zero_result_share:recent - relevanced:zero_result_share:baseline)
/ (1 - relevanced:zero_result_share:baseline)
/ (
  1 - (
    (relevanced:rr:ratio < relevanced:success:recent / relevanced:success:baseline)
    or relevanced:success:recent / relevanced:success:baseline
  ) > 0
)""",
        "What the lists that are empty now explain of the fall of Success, or of RR where that "
        "fell further.",
    ),
    Rule(
        "relevanced:list_length:change",
        """\
ln(
  max without (instance, pod) (relevanced_recent_list_length)
  / max without (instance, pod) (relevanced_baseline_list_length)
)""",
    ),
    Rule(
        "relevanced:list_length:z",
        _noisy(
            "relevanced:list_length:change",
            """\
(
    (max without (instance, pod) (relevanced_recent_list_length_stderr)
      / max without (instance, pod) (relevanced_recent_list_length)) ^ 2
    + (max without (instance, pod) (relevanced_baseline_list_length_stderr)
      / max without (instance, pod) (relevanced_baseline_list_length)) ^ 2
  )""",
            "0.25 * relevanced:drift:variance",
        ),
    ),
    Rule(
        "relevanced:judged:z",
        "min without (metric) (relevanced:judged_score:z)",
        "Of judged scores, which are recorded in judged.yml: the metric that fell most, and what "
        "would be seen if they had fallen as Success did.",
    ),
    Rule(
        "relevanced:judged:expected_z",
        """\
min without (metric) (
  relevanced:judged_score:baseline / relevanced:judged_score:error
  * ignoring (metric) group_left () relevanced:success:change
)""",
    ),
    Rule(
        "relevanced:judged_share:change",
        "ln(relevanced:judged_share:recent / relevanced:judged_share:baseline)",
    ),
)
