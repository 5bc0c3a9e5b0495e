"""The families of changes that are called, and of what could be noticed. Pure."""

from typing import Final

from .family import SEGMENT, gauge

AGAINST: Final = ("hour", "day", "weeks")
"""Values of the label `against`: what lies just before, the same hours of the last days, or those
of the last weeks."""
BOUNDS: Final = ("earliest", "likely", "latest")
"""Values of the label `bound`."""

_OF_CHANGE: Final = ("metric", *SEGMENT, "against")

LOSS_RATIO: Final = gauge(
    "change_loss_ratio",
    _OF_CHANGE,
    "By how much settled scores are worse than what lay just before, as a share of that: of the "
    "instant at which the difference is clearest. Only while the change is called.",
)
Z: Final = gauge(
    "change_z",
    _OF_CHANGE,
    "The same change in standard errors, which contain the design effect and the drift of a "
    "healthy score; negative. Only while the change is called.",
)
ONSET: Final = gauge(
    "change_onset_timestamp_seconds",
    (*_OF_CHANGE, "bound"),
    "Event time at which a score became worse: bounds of the interval that contains it in 19 of 20 "
    "cases, and its likeliest instant. Bound earliest is absent where the change may be older than "
    "what is kept. While it is called, or low against earlier weeks or days.",
)
NOTICEABLE: Final = gauge(
    "noticeable_drop_ratio",
    _OF_CHANGE,
    "The smallest fall, as a share of the score, that would be noticed by now in 9 of 10 cases. "
    "Absent where none would be.",
)
HISTORY_BEGIN: Final = gauge(
    "history_begin_timestamp_seconds",
    (),
    "Event time at which what is known of the scores begins. Absent where no hours are kept.",
)
MARKER: Final = gauge(
    "marker_timestamp_seconds",
    ("kind", "text", "metric", "scope"),
    "Event time of a marker that was set by hand: the five latest of each kind within the last "
    "day. Labels metric and scope, such as country=DE, are empty where it is about everything.",
)
OF_CHANGES: Final = (LOSS_RATIO, Z, ONSET, NOTICEABLE, HISTORY_BEGIN, MARKER)
