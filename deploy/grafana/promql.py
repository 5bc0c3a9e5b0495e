"""PromQL expressions that several panels share, as text.

Every selector matches the selected installation. The series of all the traffic come from the
process that holds the exporter lease. They are aggregated over the labels of the process, so that
a lease that moves to another process causes no gap and no double count.
"""

from typing import Final

from deploy.grafana.states import NO_BASELINE, NO_TRAFFIC, UNDEFINED

OURS: Final = 'cluster="$cluster",namespace="$namespace",job="$job"'
"""Matches the one selected installation. A variable without a value is empty, and an empty matcher
matches series without the label: outside Kubernetes, and in a Prometheus of one cluster."""
WHOLE: Final = 'grouping="all",segment="all"'
IN_GROUPING: Final = 'grouping="$grouping"'
THE_SEGMENT: Final = 'grouping="$grouping",segment="$segment"'
METRIC: Final = 'metric="$metric"'
WINDOW: Final = 'window="$window"'
THE_EXPERIMENT: Final = 'experiment="$experiment"'

RELEASES: Final = "ranker|version|release|experiment:.+"
"""The groupings of which each new segment is a release, unless another expression is entered."""
OBJECTIVE: Final = 0.995
"""Share of the minutes in which the live windows are to be younger than `late_seconds`."""
CLEAR_Z: Final = 3
"""A difference of at least this many standard errors is called clear."""


def select(name: str, *matchers: str) -> str:
    """Selector of a series of all the traffic."""
    inside = ",".join((OURS, *matchers))
    return f"relevanced_{name}{{{inside}}}"


def own(name: str, *matchers: str) -> str:
    """Selector of a series that each process exposes about itself, for the selected processes."""
    return select(name, 'instance=~"$instance"', *matchers)


def top(by: str, name: str, *matchers: str) -> str:
    """A gauge of all the traffic by these labels, whichever process serves it."""
    return f"max by ({by}) ({select(name, *matchers)})"


def setting(name: str) -> str:
    """A setting of the selected installation."""
    return "max(" + select("setting", f'setting="{name}"') + ")"


def own_setting(name: str) -> str:
    """A setting of the selected processes."""
    return "max(" + own("setting", f'setting="{name}"') + ")"


def recorded(name: str, *matchers: str) -> str:
    """A series that the recording rules make."""
    inside = ",".join((OURS, *matchers))
    return f"relevanced:{name}{{{inside}}}"


def per_second(by: str, selector: str) -> str:
    """Rate of a counter per second, summed by these labels."""
    return f"sum by ({by}) (rate({selector}[$__rate_interval]))"


def with_states(by: str, score: str, impressions: str) -> str:
    """The score; -1 where there is traffic but no defined score, -2 where there is no traffic.

    There is no value at all where the segment has no series or no process serves scores.
    """
    undefined = f"({impressions} > 0) * 0 {UNDEFINED:+}"
    return f"{score} or on ({by}) ({undefined}) or on ({by}) ({impressions} * 0 {NO_TRAFFIC:+})"


def score_with_states(by: str, view: str, *matchers: str) -> str:
    """`with_states` of the selected metric and window."""
    seen = (*matchers, WINDOW, f'view="{view}"')
    return with_states(by, top(by, "score", METRIC, *seen), top(by, "impressions", *seen))


def recent_with_states(by: str, *matchers: str) -> str:
    """`with_states` of the recent score, which is compared with the baseline."""
    score = top(by, "recent_score", METRIC, WINDOW, *matchers)
    return with_states(by, score, top(by, "recent_impressions", WINDOW, *matchers))


def change(by: str, *matchers: str) -> str:
    """Relative change of the score against the baseline."""
    recent = top(by, "recent_score", WINDOW, *matchers)
    baseline = top(by, "baseline_score", WINDOW, *matchers)
    return f"{recent} / ({baseline} > 0) - 1"


def z(by: str, *matchers: str) -> str:
    """The change in standard errors, which combine those of both scores with normal drift."""
    recent, recent_stderr, baseline, baseline_stderr = (
        top(by, name, WINDOW, *matchers)
        for name in ("recent_score", "recent_score_stderr", "baseline_score")
        + ("baseline_score_stderr",)
    )
    effect = "scalar(max(" + select("design_effect", 'kind="used"') + "))"
    sampling = f"{effect} * ({recent_stderr} ^ 2 + {baseline_stderr} ^ 2)"
    drift = f"scalar({setting('drift_ratio')}) * {baseline}"
    return f"({recent} - {baseline}) / sqrt({sampling} + ({drift}) ^ 2)"


def verdict(*matchers: str) -> str:
    """Verdict on the selected metric: 1 better, 0 no clear change, -1 worse; lower values say why
    there is no verdict."""
    by = "grouping, segment"
    errors = z(by, METRIC, *matchers)
    clear = f"sgn({errors}) * (abs({errors}) >= bool {CLEAR_Z})"
    no_baseline = f"({top(by, 'recent_score', METRIC, WINDOW, *matchers)}) * 0 {NO_BASELINE:+}"
    impressions = top(by, "recent_impressions", WINDOW, *matchers)
    undefined = f"({impressions} > 0) * 0 {NO_BASELINE - 1:+}"
    no_traffic = f"{impressions} * 0 {NO_BASELINE - 2:+}"
    return f"({clear}) or ({no_baseline}) or ({undefined}) or ({no_traffic})"


def band(score: str, stderr: str, sign: str) -> str:
    """One bound of the band of two standard errors around a score; `sign` is + or -."""
    return f"{score} {sign} 2 * {stderr}"


def share(part: str, of: str) -> str:
    """A ratio; absent, not NaN, where the denominator is 0."""
    return f"{part} / ({of} > 0)"
