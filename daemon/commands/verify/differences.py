"""Integers that are not what the log proves: counted, and the first of them kept. Pure."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

import msgspec

from ...plan import ALL

MOST_NAMED: Final = 20
"""So many differences of a lane are named; all are counted."""


class Difference(msgspec.Struct, frozen=True):
    """One integer that is stored and another one that the log proves. None: there is none."""

    what: str
    """`pane`, `hour`, `judged pane`, `judged hour`, `totals`, `watermark`, `count` or
    `experiment`."""
    column: str
    """The column of a row, such as `RR@10 sum`; of anything else, what is counted."""
    stored: int | None
    proven: int | None
    start: str | None = None
    """Of a pane or an hour."""
    window: str | None = None
    """The window that the pane is of."""
    grouping: str | None = None
    segment: str | None = None

    def text(self) -> str:
        """The difference in one line."""
        window = "" if self.window is None else f" of window {self.window}"
        start = "" if self.start is None else f" {self.start}"
        whole = self.grouping in (None, ALL)
        segment = f", {self.segment}" if whole else f", {self.grouping}={self.segment}"
        where = f"{self.what}{window}{start}{'' if self.segment is None else segment}"
        stored, proven = (_text(value) for value in (self.stored, self.proven))
        return f"{where}, {self.column}: stored {stored}, proven {proven}"


def _text(value: int | None) -> str:
    return "none" if value is None else str(value)


@dataclass
class Differences:
    """Those of one lane."""

    count: int = 0
    first: list[Difference] = field(default_factory=list)
    """At most MOST_NAMED."""
    compared: int = 0
    """Integers that were compared."""

    def note(self, found: Iterable[Difference], count: int) -> None:
        """Note so many differences. No more of `found` are taken than there is room for."""
        self.count += count
        room = MOST_NAMED - len(self.first)
        if room > 0:
            self.first += [difference for difference, _ in zip(found, range(room), strict=False)]

    def compare(self, what: str, stored: Mapping[str, int], proven: Mapping[str, int]) -> None:
        """Compare integers by name; one that is missing is 0."""
        names = sorted(stored.keys() | proven.keys())
        pairs = [(name, stored.get(name, 0), proven.get(name, 0)) for name in names]
        unequal = [Difference(what, name, s, p) for name, s, p in pairs if s != p]
        self.compared += len(pairs)
        self.note(unequal, len(unequal))
