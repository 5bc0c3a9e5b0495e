"""Segment: the score of one segment, its uncertainty, and the data behind it."""

from typing import Final

from grafana_foundation_sdk.builders import dashboard as builders, stat, statetimeline, timeseries

from deploy.grafana import frame
from deploy.grafana.frame import framed
from deploy.grafana.parts import counts, in_colour, lines, number, preset, states, with_band
from deploy.grafana.promql import (
    IN_GROUPING,
    METRIC,
    THE_SEGMENT,
    WINDOW,
    band,
    score_with_states,
    select,
    share,
    top,
)
from deploy.grafana.states import STATES

SEGMENT: Final = "grouping, segment"
LIVE: Final = 'view="live"'
SETTLED: Final = 'view="settled"'
VIEWS: Final = (
    "The live view reaches up to now and still collects feedback, so its scores are low. The"
    " settled view is complete, but ends earlier by the time that feedback is waited for."
)


def segment() -> builders.Dashboard:
    """The dashboard."""
    built = framed(
        "relevanced-segment",
        "relevanced: segment",
        "What is the score of one segment, how certain is it, and what data is it based on?",
        "now-6h",
    )
    for variable in (
        preset(frame.grouping("relevanced_impressions"), "all"),
        preset(frame.segment("relevanced_impressions"), "all"),
        frame.metric("relevanced_scored_impressions"),
        frame.window("relevanced_impressions"),
    ):
        built = built.with_variable(variable)
    for panel in (
        *_scores(),
        *_basis(),
        _views(),
        _against_baseline(),
        _state(),
        _metrics(),
        _counts(),
    ):
        built = built.with_panel(panel)
    return built.with_panel(_siblings()).with_panel(_shares())


def _scores() -> list[stat.Panel]:
    error = top(SEGMENT, "score_stderr", METRIC, THE_SEGMENT, WINDOW, SETTLED)
    return [
        number(
            "Settled score",
            f"Mean of the selected metric over the window. {VIEWS}",
            "none",
            score_with_states(SEGMENT, "settled", THE_SEGMENT),
            texts=STATES,
        ),
        number(
            "Live score",
            f"Mean of the selected metric over the window. {VIEWS}",
            "none",
            score_with_states(SEGMENT, "live", THE_SEGMENT),
            texts=STATES,
        ),
        number(
            "Standard error",
            "Standard error of the settled score, computed as if impressions were independent: too"
            " small where few users make many of the impressions.",
            "none",
            error,
        ),
    ]


def _basis() -> list[stat.Panel]:
    def seen(name: str, view: str) -> str:
        return top(SEGMENT, name, THE_SEGMENT, WINDOW, view)

    scored = top(SEGMENT, "scored_impressions", METRIC, THE_SEGMENT, WINDOW, SETTLED)
    return [
        number(
            "Impressions", "Impressions in the live window.", "short", seen("impressions", LIVE)
        ),
        number(
            "Scored",
            "Share of the impressions in the settled window for which the metric is defined.",
            "percentunit",
            share(scored, seen("impressions", SETTLED)),
        ),
        number(
            "Mean over the time range",
            "Mean over all impressions that settled in the time range of the dashboard, computed"
            " from counters and independent of the selected window.",
            "none",
            _settled_mean(),
        ),
    ]


def _settled_mean() -> str:
    total, scored = (
        f"sum by ({SEGMENT}) (increase({select(name, METRIC, THE_SEGMENT)}[$__range]))"
        for name in ("settled_score_sum_total", "settled_scored_impressions_total")
    )
    return share(total, scored)


def _views() -> timeseries.Panel:
    by = "metric"
    settled, error, live = (
        top(by, name, METRIC, THE_SEGMENT, WINDOW, view)
        for name, view in (("score", SETTLED), ("score_stderr", SETTLED), ("score", LIVE))
    )
    panel = lines(
        "Score, live and settled",
        f"The settled score has a band of two standard errors. {VIEWS} In a gap there is no defined"
        " score; the panel of states below says why.",
        "none",
        {
            "settled": settled,
            "settled, upper": band(settled, error, "+"),
            "settled, lower": band(settled, error, "-"),
            "live": live,
        },
    )
    panel = in_colour(in_colour(panel, "settled", "blue"), "live", "green")
    return with_band(panel, "settled, lower", "settled, upper", "blue")


def _against_baseline() -> timeseries.Panel:
    by = "metric, window"
    baseline, error, recent = (
        top(by, name, METRIC, THE_SEGMENT)
        for name in ("baseline_score", "baseline_score_stderr", "recent_score")
    )
    return lines(
        "Score and baseline",
        "Recent scores over one, six and twenty-four hours, their baselines over the same periods"
        " of the last weeks, and the baselines less two standard errors.",
        "none",
        {
            "{{window}}": recent,
            "{{window}}, baseline": baseline,
            "{{window}}, baseline, lower": band(baseline, error, "-"),
        },
    )


def _state() -> statetimeline.Panel:
    def state(view: str) -> str:
        """1 for any score above 0; 0 and the encoded states unchanged."""
        return f"clamp_max(ceil({score_with_states(SEGMENT, view, THE_SEGMENT)}), 1)"

    texts = {1: ("above 0", "green"), 0: ("0: nothing relevant", "red"), **STATES}
    return states(
        "State of the score",
        "Undefined: there was traffic, but no impression for which the metric is defined. No"
        " traffic: there were no impressions. A score of 0 is neither. No bar: the segment had no"
        " series, or no process served scores.",
        {
            "settled": state("settled"),
            "live": state("live"),
        },
        texts,
    )


def _metrics() -> timeseries.Panel:
    return lines(
        "Every metric",
        "Settled means over the window, one curve per metric.",
        "none",
        {"{{metric}}": top("metric", "score", THE_SEGMENT, WINDOW, SETTLED)},
    )


def _counts() -> timeseries.Panel:
    def seen(name: str, *matchers: str) -> str:
        return top(SEGMENT, name, THE_SEGMENT, WINDOW, SETTLED, *matchers)

    return counts(
        "Data behind the score",
        "Counts of the settled window. Scored impressions are those for which the selected metric"
        " is defined.",
        "short",
        {
            "impressions": seen("impressions"),
            "scored": seen("scored_impressions", METRIC),
            "with feedback": seen("impressions_with_feedback"),
            "without results": seen("zero_result_impressions"),
            "items with feedback": seen("feedback"),
        },
    )


def _siblings() -> timeseries.Panel:
    here = (IN_GROUPING, WINDOW, SETTLED)
    busiest = f"topk(10, {top('segment', 'impressions', *here)})"
    score = top("segment", "score", METRIC, *here)
    return lines(
        "Ten busiest segments of the grouping",
        "Settled means of the selected metric.",
        "none",
        {"{{segment}}": f"{score} and on (segment) {busiest}"},
    )


def _shares() -> timeseries.Panel:
    def of(name: str) -> str:
        part, whole = (
            top(SEGMENT, count, THE_SEGMENT, WINDOW, SETTLED) for count in (name, "impressions")
        )
        return share(part, whole)

    return counts(
        "Shares of impressions",
        "Impressions in the settled window with feedback on an item, and with an empty list.",
        "percentunit",
        {
            "with feedback": of("impressions_with_feedback"),
            "without results": of("zero_result_impressions"),
        },
    )
