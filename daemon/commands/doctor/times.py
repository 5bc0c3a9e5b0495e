"""Which member of records is their time, and in which unit. Pure."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

from ...events.timestamps import instant_ms
from .profile import plain_members
from .toml import toml

LEAST_PRESENT: Final = 0.95
EARLIEST_MS: Final = 30 * 86_400_000
"""Before the time of its record."""
LATEST_MS: Final = 3_600_000
"""After it."""
UNITS: Final = {"s": 1000.0, "ms": 1.0, "us": 1e-3, "ns": 1e-6}
"""Unit → milliseconds."""
IN_WORDS: Final = {
    "s": "seconds",
    "ms": "milliseconds",
    "us": "microseconds",
    "ns": "nanoseconds",
}
"""Unit → its name for people."""
MOST_RECORDS: Final = 500


@dataclass(frozen=True)
class TimeGuess:
    """The path of a time, and how it is written."""

    path: str
    unit: str | None
    """None: ISO 8601 with a zone."""

    def lines(self) -> Iterator[str]:
        """The keys as TOML."""
        how = "ISO 8601" if self.unit is None else f"in {IN_WORDS[self.unit]}"
        yield f"time = {toml(self.path)}  # {how}; guessed: check"


def guessed_time(values: Sequence[Any], stamps_ms: Sequence[int]) -> TimeGuess | None:
    """The path whose values lie near the times of the records, for the most of them; of several,
    the one that is nearest on the whole."""
    found: dict[tuple[str, str | None], list[float]] = {}
    seen = list(zip(values, stamps_ms, strict=True))[:MOST_RECORDS]
    for value, stamp_ms in seen:
        for path, member in plain_members(value).items():
            for unit, at_ms in _instants(member):
                if stamp_ms < 0 or -EARLIEST_MS <= at_ms - stamp_ms <= LATEST_MS:
                    found.setdefault((path, unit), []).append(abs(at_ms - max(stamp_ms, 0)))
    enough = {of: apart for of, apart in found.items() if len(apart) >= LEAST_PRESENT * len(seen)}
    if not enough:
        return None
    path, unit = min(enough, key=lambda of: (sum(enough[of]) / len(enough[of]), of[0]))
    return TimeGuess(path, unit)


def _instants(member: Any) -> Iterator[tuple[str | None, float]]:
    """(unit, ms since the epoch) of all readings of a value that lie from 2001 to 2286."""
    if isinstance(member, str):
        try:
            yield None, float(instant_ms(member))
        except ValueError:
            return
    elif isinstance(member, int | float) and not isinstance(member, bool):
        for unit, factor in UNITS.items():
            if 1e12 <= member * factor < 1e13:
                yield unit, member * factor
