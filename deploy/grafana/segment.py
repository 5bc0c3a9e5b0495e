"""Segment: how one segment does, how sure that is, and what it rests on."""

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
    "Live reaches up to now and still gathers feedback, so that it is low; settled is complete,"
    " earlier by as long as feedback is waited for."
)


def segment() -> builders.Dashboard:
    """The dashboard."""
    built = framed(
        "relevanced-segment",
        "relevanced: segment",
        "How does one segment do, how sure is that, and what does it rest on?",
        "now-6h",
    )
    for chosen in (
        preset(frame.grouping("relevanced_impressions"), "all"),
        preset(frame.segment("relevanced_impressions"), "all"),
        frame.metric("relevanced_scored_impressions"),
        frame.window("relevanced_impressions"),
    ):
        built = built.with_variable(chosen)
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
            f"Mean of the chosen metric over the window. {VIEWS}",
            "none",
            score_with_states(SEGMENT, "settled", THE_SEGMENT),
            texts=STATES,
        ),
        number(
            "Live score",
            f"Mean of the chosen metric over the window. {VIEWS}",
            "none",
            score_with_states(SEGMENT, "live", THE_SEGMENT),
            texts=STATES,
        ),
        number(
            "Standard error",
            "Of the settled score, as if impressions were independent: too small where few users"
            " make many of them.",
            "none",
            error,
        ),
    ]


def _basis() -> list[stat.Panel]:
    def seen(name: str, view: str) -> str:
        return top(SEGMENT, name, THE_SEGMENT, WINDOW, view)

    scored = top(SEGMENT, "scored_impressions", METRIC, THE_SEGMENT, WINDOW, SETTLED)
    return [
        number("Impressions", "In the live window.", "short", seen("impressions", LIVE)),
        number(
            "Scored",
            "Share of the settled window's impressions for which the metric is defined.",
            "percentunit",
            share(scored, seen("impressions", SETTLED)),
        ),
        number(
            "Mean since then",
            "Of all that settled in the time range of this page, from counters: independent of the"
            " chosen window.",
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
        f"The settled score with two standard errors. {VIEWS} A gap is a stretch without a defined"
        " score; the states below say why.",
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
        "Over one, six and twenty-four hours, and what the same stretches gave in the last weeks,"
        " with the lowest that two of its standard errors make likely.",
        "none",
        {
            "{{window}}": recent,
            "{{window}}, baseline": baseline,
            "{{window}}, baseline, lower": band(baseline, error, "-"),
        },
    )


def _state() -> statetimeline.Panel:
    def state(view: str) -> str:
        """1 for any score above 0; the others as they are."""
        return f"clamp_max(ceil({score_with_states(SEGMENT, view, THE_SEGMENT)}), 1)"

    texts = {1: ("above 0", "green"), 0: ("0: nothing relevant", "red"), **STATES}
    return states(
        "What the score is",
        "Undefined: there was traffic, but no impression for which the metric is defined. No"
        " traffic: no impression at all. A score of 0 is neither. Nothing drawn: the segment was"
        " not shown, or nobody served scores.",
        {
            "settled": state("settled"),
            "live": state("live"),
        },
        texts,
    )


def _metrics() -> timeseries.Panel:
    return lines(
        "Every metric",
        "Settled means over the window.",
        "none",
        {"{{metric}}": top("metric", "score", THE_SEGMENT, WINDOW, SETTLED)},
    )


def _counts() -> timeseries.Panel:
    def seen(name: str, *matchers: str) -> str:
        return top(SEGMENT, name, THE_SEGMENT, WINDOW, SETTLED, *matchers)

    return counts(
        "What it rests on",
        "Counts of the settled window. Scored are those for which the chosen metric is defined.",
        "short",
        {
            "impressions": seen("impressions"),
            "scored": seen("scored_impressions", METRIC),
            "with feedback": seen("impressions_with_feedback"),
            "without a result": seen("zero_result_impressions"),
            "items with feedback": seen("feedback"),
        },
    )


def _siblings() -> timeseries.Panel:
    here = (IN_GROUPING, WINDOW, SETTLED)
    busiest = f"topk(10, {top('segment', 'impressions', *here)})"
    score = top("segment", "score", METRIC, *here)
    return lines(
        "The grouping's ten busiest segments",
        "Settled means of the chosen metric.",
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
        "Of the settled window: with feedback on an item, and with an empty result list.",
        "percentunit",
        {
            "with feedback": of("impressions_with_feedback"),
            "without a result": of("zero_result_impressions"),
        },
    )
