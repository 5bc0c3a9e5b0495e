"""The expressions that more than one panel is made of. Text only.

Every selector names its installation. Series of all the traffic come from whoever holds the
exporter lease: they are aggregated over the labels of the process, so that a lease that moves on
leaves no gap and counts nothing twice.
"""

from typing import Final

from deploy.grafana.states import NO_BASELINE, NO_TRAFFIC, UNDEFINED

OURS: Final = 'job=~"$job",namespace=~"$namespace"'
"""Which installation: outside Kubernetes there is no namespace, and all of them means that too."""
WHOLE: Final = 'grouping="all",segment="all"'
IN_GROUPING: Final = 'grouping="$grouping"'
THE_SEGMENT: Final = 'grouping="$grouping",segment="$segment"'
METRIC: Final = 'metric="$metric"'
WINDOW: Final = 'window="$window"'
THE_EXPERIMENT: Final = 'experiment="$experiment"'

CLEAR_Z: Final = 3
"""Differences of so many standard errors are called clear."""
USUAL_DRIFT: Final = 0.006
"""Relative change that search has from week to week without anybody's doing."""


def select(name: str, *matchers: str) -> str:
    """A series of all the traffic."""
    inside = ",".join((OURS, *matchers))
    return f"relevanced_{name}{{{inside}}}"


def own(name: str, *matchers: str) -> str:
    """A series that each process has of itself, of the chosen processes."""
    return select(name, 'instance=~"$instance"', *matchers)


def top(by: str, name: str, *matchers: str) -> str:
    """A gauge of all the traffic by these labels, whichever process serves it."""
    return f"max by ({by}) ({select(name, *matchers)})"


def per_second(by: str, selector: str) -> str:
    """Growth of a counter."""
    return f"sum by ({by}) (rate({selector}[$__rate_interval]))"


def with_states(by: str, score: str, impressions: str) -> str:
    """The score; -1 where there is traffic but no defined score, -2 where there is no traffic.

    Nothing at all is a fourth thing: the segment is not shown, or nobody serves scores.
    """
    undefined = f"({impressions} > 0) * 0 {UNDEFINED:+}"
    return f"{score} or on ({by}) ({undefined}) or on ({by}) ({impressions} * 0 {NO_TRAFFIC:+})"


def score_with_states(by: str, view: str, *matchers: str) -> str:
    """`with_states` of the chosen metric and window."""
    seen = (*matchers, WINDOW, f'view="{view}"')
    return with_states(by, top(by, "score", METRIC, *seen), top(by, "impressions", *seen))


def recent_with_states(by: str, *matchers: str) -> str:
    """`with_states` of what is compared with the baseline."""
    score = top(by, "recent_score", METRIC, WINDOW, *matchers)
    return with_states(by, score, top(by, "recent_impressions", WINDOW, *matchers))


def change(by: str, *matchers: str) -> str:
    """Relative change of the score against the baseline."""
    recent = top(by, "recent_score", WINDOW, *matchers)
    baseline = top(by, "baseline_score", WINDOW, *matchers)
    return f"{recent} / ({baseline} > 0) - 1"


def z(by: str, *matchers: str) -> str:
    """The change in standard errors: those of both scores and of what is usual drift."""
    recent, recent_stderr, baseline, baseline_stderr = (
        top(by, name, WINDOW, *matchers)
        for name in ("recent_score", "recent_score_stderr", "baseline_score")
        + ("baseline_score_stderr",)
    )
    variance = f"{recent_stderr} ^ 2 + {baseline_stderr} ^ 2 + ({USUAL_DRIFT} * {baseline}) ^ 2"
    return f"({recent} - {baseline}) / sqrt({variance})"


def verdict(*matchers: str) -> str:
    """1 better, 0 no clear change, -1 worse of the chosen metric; below that there is none, and
    why."""
    by = "grouping, segment"
    sure = z(by, METRIC, *matchers)
    clear = f"sgn({sure}) * (abs({sure}) >= bool {CLEAR_Z})"
    lonely = f"({top(by, 'recent_score', METRIC, WINDOW, *matchers)}) * 0 {NO_BASELINE:+}"
    impressions = top(by, "recent_impressions", WINDOW, *matchers)
    undefined = f"({impressions} > 0) * 0 {NO_BASELINE - 1:+}"
    nothing = f"{impressions} * 0 {NO_BASELINE - 2:+}"
    return f"({clear}) or ({lonely}) or ({undefined}) or ({nothing})"


def band(score: str, stderr: str, sign: str) -> str:
    """One edge of what two standard errors around a score span."""
    return f"{score} {sign} 2 * {stderr}"


def share(part: str, of: str) -> str:
    """A ratio; absent, not NaN, where there is nothing to divide by."""
    return f"{part} / ({of} > 0)"
