"""Values that stand for states, and how they look: where a panel shows one value, no traffic,
undefined and 0 stay three things."""

from collections.abc import Mapping
from typing import Final, TypeAlias

Texts: TypeAlias = Mapping[float, tuple[str, str]]
"""Value → (what is shown in its place, colour)."""

NO_TRAFFIC: Final = -2
UNDEFINED: Final = -1
NO_BASELINE: Final = -3
"""Stand for states where a panel shows one value: no score is below 0."""

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
