"""Values that encode states, and their texts and colours: a panel that shows a single value still
distinguishes no traffic, undefined and a score of 0."""

from collections.abc import Mapping
from typing import Final, TypeAlias

Texts: TypeAlias = Mapping[float, tuple[str, str]]
"""Value → (text shown instead, colour)."""

NO_TRAFFIC: Final = -2
UNDEFINED: Final = -1
NO_BASELINE: Final = -3
"""Encode states where a panel shows a single value: no score is below 0."""

STATES: Final[Texts] = {
    UNDEFINED: ("undefined", "purple"),
    NO_TRAFFIC: ("no traffic", "text"),
}
VERDICTS: Final[Texts] = {
    1: ("better", "green"),
    0: ("no clear change", "blue"),
    -1: ("worse", "red"),
    NO_BASELINE: ("no baseline yet", "text"),
    NO_BASELINE - 1: ("undefined", "purple"),
    NO_BASELINE - 2: ("no traffic", "text"),
}
