"""The families of layouts: which columns the rows of lanes have, and since when."""

from typing import Final

from .family import gauge

COLUMN_SINCE: Final = gauge(
    "column_since_timestamp_seconds",
    ("metric", "grouping", "window"),
    "Event time from which on a metric is counted by a grouping, while the window begins earlier: "
    "until then it is not shown. Absent where the window has all of it.",
)
LAYOUT_LANES: Final = gauge(
    "layout_lanes",
    ("generation",),
    "Lanes by the generation of the layout that they are under.",
)
OF_LAYOUTS: Final = (COLUMN_SINCE, LAYOUT_LANES)
