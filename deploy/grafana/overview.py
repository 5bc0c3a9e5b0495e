"""Overview: is search better or worse than in the last weeks, and which segment moved most?"""

from typing import Final

from grafana_foundation_sdk.builders import (
    dashboard as builders,
    stat,
    statetimeline,
    table,
    timeseries,
)

from deploy.grafana import frame
from deploy.grafana.frame import ALERTS, SEGMENT_URL, framed
from deploy.grafana.parts import (
    GOOD_AT_ZERO,
    counts,
    in_colour,
    lines,
    mapped,
    number,
    properties,
    rows,
    states,
    variable,
    with_band,
)
from deploy.grafana.promql import (
    CLEAR_Z,
    IN_GROUPING,
    METRIC,
    OURS,
    USUAL_DRIFT,
    WHOLE,
    WINDOW,
    band,
    change,
    recent_with_states,
    share,
    top,
    verdict,
    z,
)
from deploy.grafana.states import STATES, VERDICTS

SEGMENT: Final = "grouping, segment"
LIVE: Final = 'view="live"'
COMPARED: Final = (
    "The same stretch of event time one, two and three weeks earlier (of the last days, while there"
    " is no week yet), outages left out."
)


def overview() -> builders.Dashboard:
    """The dashboard."""
    built = framed(
        "relevanced-overview",
        "relevanced: overview",
        "Is search better or worse than in the last weeks, and which segment moved most?",
        "now-24h",
    )
    built = built.with_variable(
        variable(
            "grouping",
            "Grouping",
            f'label_values(relevanced_recent_impressions{{{OURS},grouping!="all"}}, grouping)',
            hint="The attributes by which the segments below are told apart.",
        )
    )
    built = built.with_variable(frame.metric("relevanced_recent_score"))
    built = built.with_variable(frame.window("relevanced_recent_impressions"))
    for panel in (*_now(), *_news(), _against_baseline(), _changes(), _verdicts()):
        built = built.with_panel(panel)
    for table_ in (_by_metric(), _by_segment()):
        built = built.with_panel(table_)
    return built.with_panel(_traffic()).with_panel(_shares())


def _now() -> list[stat.Panel]:
    return [
        number(
            "Search is",
            f"The chosen metric over everything, against its baseline. A change is clear from"
            f" {CLEAR_Z} standard errors on, {USUAL_DRIFT:.1%} of usual drift allowed for. Where"
            " less of the metric is better, read it the other way round."
            f" {COMPARED}",
            "none",
            verdict(WHOLE),
            texts=VERDICTS,
        ),
        number(
            "Score",
            "Mean of the chosen metric over everything, in the last complete window.",
            "none",
            recent_with_states(SEGMENT, WHOLE),
            texts=STATES,
        ),
        number("Baseline", COMPARED, "none", top(SEGMENT, "baseline_score", METRIC, WINDOW, WHOLE)),
        number(
            "Change",
            "Of the score, relative to the baseline.",
            "percentunit",
            change(SEGMENT, METRIC, WHOLE),
            steps=((None, "red"), (-0.02, "text"), (0.02, "green")),
        ),
    ]


def _news() -> list[stat.Panel]:
    late = f'time() - {top("view", "window_end_timestamp_seconds", LIVE)}'
    firing = f"count({ALERTS}) or vector(0)"
    return [
        number(
            "Newest data",
            "Age of the end of the live windows. When it grows, the pipeline is late or stands"
            " still, and nothing on this page is news.",
            "s",
            late,
            steps=((None, "green"), (300, "orange"), (900, "red")),
        ),
        number(
            "Alerts firing",
            "Alerts of relevanced that fire now, as Prometheus knows them.",
            "none",
            firing,
            steps=GOOD_AT_ZERO,
        ),
    ]


def _against_baseline() -> timeseries.Panel:
    by = "metric"
    recent, recent_error, baseline, baseline_error = (
        top(by, name, METRIC, WINDOW, WHOLE)
        for name in ("recent_score", "recent_score_stderr")
        + ("baseline_score", "baseline_score_stderr")
    )
    panel = lines(
        "Score and baseline",
        f"The whole, with two standard errors. {COMPARED}",
        "none",
        {
            "now": recent,
            "now, upper": band(recent, recent_error, "+"),
            "now, lower": band(recent, recent_error, "-"),
            "baseline": baseline,
            "baseline, upper": band(baseline, baseline_error, "+"),
            "baseline, lower": band(baseline, baseline_error, "-"),
        },
    )
    for name, colour in (("now", "blue"), ("baseline", "orange")):
        panel = in_colour(panel, name, colour)
        panel = with_band(panel, f"{name}, lower", f"{name}, upper", colour)
    return panel


def _changes() -> timeseries.Panel:
    return lines(
        "Change by segment",
        f"Of the chosen metric, relative to the baseline of the same segment. {COMPARED}",
        "percentunit",
        {"{{segment}}": change(SEGMENT, METRIC, IN_GROUPING)},
    )


def _verdicts() -> statetimeline.Panel:
    return states(
        "Better or worse, over time",
        "The whole against its baseline. No traffic, undefined and no baseline are states of their"
        " own, and none of them is a score of 0.",
        {"everything": verdict(WHOLE)},
        VERDICTS,
    )


def _by_metric() -> table.Panel:
    by = "metric"
    return rows(
        "Every metric against its baseline",
        f"The whole. Certainty is the change in standard errors; beyond {CLEAR_Z} it is clear."
        f" {COMPARED}",
        {
            "Now": ("none", top(by, "recent_score", WINDOW, WHOLE)),
            "Baseline": ("none", top(by, "baseline_score", WINDOW, WHOLE)),
            "Change": ("percentunit", change(by, WHOLE)),
            "Certainty": ("none", z(by, WHOLE)),
        },
        {"metric": "Metric"},
        "Change",
    )


def _by_segment() -> table.Panel:
    by = "segment"
    here = (METRIC, IN_GROUPING)
    panel = rows(
        "Which segment moved most",
        "Worst first. A segment without traffic and one without a defined score say so. Click a"
        f" segment to look into it. {COMPARED}",
        {
            "Now": ("none", recent_with_states(by, IN_GROUPING)),
            "Baseline": ("none", top(by, "baseline_score", WINDOW, *here)),
            "Change": ("percentunit", change(by, *here)),
            "Certainty": ("none", z(by, *here)),
            "Impressions": ("short", top(by, "recent_impressions", WINDOW, IN_GROUPING)),
        },
        {"segment": "Segment"},
        "Certainty",
    )
    url = f"{SEGMENT_URL}&var-segment=${{__value.raw:percentencode}}"
    link = [{"title": "Look into ${__value.raw}", "url": url}]
    panel = panel.override_by_name("Segment", properties(links=link))
    return panel.override_by_name("Now", properties(mappings=mapped(STATES)))


def _traffic() -> timeseries.Panel:
    return counts(
        "Impressions",
        f"In the window, and as many as are usual. {COMPARED}",
        "short",
        {
            "now": top(SEGMENT, "recent_impressions", WINDOW, WHOLE),
            "usual": top(SEGMENT, "baseline_impressions", WINDOW, WHOLE),
        },
    )


def _shares() -> timeseries.Panel:
    def of(which: str, name: str) -> str:
        part, whole = (
            top(SEGMENT, f"{which}_{count}", WINDOW, WHOLE) for count in (name, "impressions")
        )
        return share(part, whole)

    return counts(
        "Shares of impressions",
        "With feedback on an item, and with an empty result list. When feedback stops while"
        f" impressions go on, its tracking broke, not the ranking. {COMPARED}",
        "percentunit",
        {
            "with feedback": of("recent", "impressions_with_feedback"),
            "with feedback, usual": of("baseline", "impressions_with_feedback"),
            "without a result": of("recent", "zero_result_impressions"),
            "without a result, usual": of("baseline", "zero_result_impressions"),
        },
    )
