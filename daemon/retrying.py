"""How long to wait before the next try. Pure: luck is an argument."""

from typing import Final

FIRST_PAUSE_S: Final = 0.1
LONGEST_PAUSE_S: Final = 10.0


def pause_s(failures: int, luck: float) -> float:
    """Seconds to wait after this many failures in a row (≥ 1): doubling, at most 10 s, and between
    half and all of it.

    `luck` in 0…1 spreads the tries of many processes that failed at the same moment.
    """
    longest = min(FIRST_PAUSE_S * 2.0 ** min(failures - 1, 10), LONGEST_PAUSE_S)
    return longest * (0.5 + luck / 2)
