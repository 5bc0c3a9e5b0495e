"""The families of dated files in lanes: of judgements, and of classes of queries."""

from typing import Final

from .family import gauge

CLASSES_REFUSED: Final = gauge(
    "query_classes_refused_lanes",
    ("attribute", "name", "start"),
    "Lanes that refused this file of classes of queries, because they had read an event that it "
    "would have classed before they could know it.",
)
EARLIEST_START: Final = gauge(
    "refused_file_earliest_start_timestamp_seconds",
    ("files", "name", "start", "lane"),
    "From when on a lane would take a file that it refused, put in place again, by the events that "
    "it has read. files: judgements, or classes of an attribute.",
)
OF_FILES: Final = (CLASSES_REFUSED, EARLIEST_START)
