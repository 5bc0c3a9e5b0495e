"""Scores by judgements, beside what is usual for the same file, and how much is judged."""

from typing import Final

from grafana_foundation_sdk.builders import timeseries

from deploy.grafana.parts import counts, lines
from deploy.grafana.promql import WHOLE, WINDOW, share, top

TITLE: Final = "By judgements"


def judged() -> tuple[timeseries.Panel, timeseries.Panel]:
    """The panels of all traffic; empty where nothing is judged."""
    return _scores(), _shares()


def _scores() -> timeseries.Panel:
    score, baseline = (
        top("metric", f"{side}_judged_score", WHOLE, WINDOW) for side in ("recent", "baseline")
    )
    return lines(
        "Scores by judgements",
        "Over all traffic whose query is judged, by metric: the selected last hours, and earlier"
        " hours that the same file graded. No clicks are in them, so they end half an hour later"
        " than other scores. In a gap a new file has not graded enough yet.",
        "none",
        {"{{metric}}": score, "{{metric}}, baseline": baseline},
    )


def _shares() -> timeseries.Panel:
    of_queries = share(
        top("window", "recent_judged_impressions", WHOLE, WINDOW),
        top("window", "recent_impressions", WHOLE, WINDOW),
    )
    return counts(
        "How much is judged",
        "Share of the searches whose query is judged, and of the first places of their lists whose"
        " item is. Below 60 % of the places a judged score says little.",
        "percentunit",
        {
            "searches": of_queries,
            "first places": top("window", "recent_judged_items_ratio", WHOLE, WINDOW),
        },
    )
