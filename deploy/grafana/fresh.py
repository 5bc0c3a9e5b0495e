"""What a fall has to be to be noticed now, and since when scores are low."""

from typing import Final

from grafana_foundation_sdk.builders import table, timeseries

from deploy.grafana.parts import lines, rows
from deploy.grafana.promql import METRIC, WHOLE, select

_NOTICEABLE: Final = "noticeable_drop_ratio"
_WORDS: Final = (
    "The smallest fall, as a share of the score, that would be noticed by now in 9 of 10 cases:"
    " against the hour before, the same hours of the last days, or of the last weeks. A new"
    " installation notices large falls only; every hour and week that it knows makes it finer."
)


def noticeable() -> tuple[timeseries.Panel, table.Panel]:
    """The panels: the whole over time, and every segment of the selected metric now."""
    return _over_time(), _by_segment()


def _over_time() -> timeseries.Panel:
    return lines(
        "Smallest fall that is noticed",
        f"Over all traffic, by metric. {_WORDS}",
        "percentunit",
        {"{{metric}}": f"min by (metric) ({select(_NOTICEABLE, WHOLE)})"},
    )


def _by_segment() -> table.Panel:
    panel = rows(
        "What can be noticed now",
        f"Of the selected metric, the finest first. {_WORDS}",
        {
            "Smallest fall": (
                "percentunit",
                f"min by (grouping, segment, against) ({select(_NOTICEABLE, METRIC)})",
            )
        },
        {"grouping": "Grouping", "segment": "Segment", "against": "Against"},
        "Smallest fall",
    )
    return panel.span(12).height(8)
