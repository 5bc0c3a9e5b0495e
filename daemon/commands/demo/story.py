"""The lines that the demo prints: the scores of the broken country beside those of all traffic, and
the headline of the page when it changes. Pure."""

from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Final

from ...exporter.scores import Report, Score
from ...http.api.judged import Judged, JudgedScore
from ...http.api.change_types import Headline
from ..simulate.traffic import Regression

METRIC: Final = "RR@10"
WINDOW: Final = "1m"


def story(report: Report, regression: Regression | None, start_ms: int, now_ms: int) -> str:
    """The metric over all traffic and in the segment that breaks, and whether it is broken yet."""
    time = datetime.fromtimestamp(now_ms / 1000, UTC).strftime("%H:%M:%S")
    live = [s for s in report.scores if (s.metric, s.window, s.view) == (METRIC, WINDOW, "live")]
    parts = [_mean_text(live, "all", "all")]
    broken = ""
    if regression is not None:
        for name, value in regression.segment.items():
            parts.append(_mean_text(live, name, value))
        left_s = start_ms / 1000 + regression.after_s - now_ms / 1000
        where = ", ".join(f"{name}={value}" for name, value in regression.segment.items())
        broken = (
            f"ranking of {where} breaks in {left_s:.0f} s"
            if left_s > 0
            else f"ranking of {where} is broken"
        )
    return f"{time}  {METRIC} over {WINDOW}: {', '.join(parts)}  ({broken or 'nothing breaks'})"


def by_judgements(judged: Judged, regression: Regression | None) -> str:
    """The first judged metric over all traffic and in the segment that breaks; nothing where
    nothing is judged yet."""
    metric = next(iter(judged.judged_metrics), "")
    found = [s for s in judged.scores if (s.judged_metric, s.window) == (metric, WINDOW)]
    if not found:
        return ""
    parts = [_mean_text(found, "all", "all")]
    if regression is not None:
        parts += [_mean_text(found, *names) for names in regression.segment.items()]
    return f"          by judgements, {metric}: {', '.join(parts)}"


def news(said: Headline | None, headline: Headline) -> str:
    """What the page says now, where it says something else than `said`; else nothing."""
    if said is not None and (said.tone, said.change) == (headline.tone, headline.change):
        return ""
    return f"          {headline.text}"


def _mean_text(scores: Iterable[Score | JudgedScore], grouping: str, segment: str) -> str:
    for score in scores:
        if (score.grouping, score.segment) == (grouping, segment):
            mean = "undefined" if score.mean is None else f"{score.mean:.3f}"
            return f"{segment} {mean}"
    return f"{segment} no traffic"
