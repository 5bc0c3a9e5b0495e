"""Which of the open impressions belong to a base pane.

To hold their slots by pane would take as much memory as the times that tell them already: of each
pane is kept only between which slots its impressions are, and they are looked for there when it
settles. They come about in the order of time, so the spans of panes are short.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


@dataclass
class _Span:
    """The first and the last slot, and how many impressions of this pane there are among them."""

    first: int
    last: int
    count: int


class PaneSpans:
    """The base panes that hold an open impression."""

    def __init__(self) -> None:
        self._spans: dict[int, _Span] = {}

    def __iter__(self) -> Iterator[int]:
        return iter(self._spans)

    @property
    def impressions(self) -> int:
        """How many there are in all panes."""
        return sum(span.count for span in self._spans.values())

    @property
    def first_slot(self) -> int | None:
        """No open impression has a lower one; None where there is none."""
        return min((span.first for span in self._spans.values()), default=None)

    def note(self, pane: int, slots: NDArray[np.int64]) -> None:
        """New impressions of a base pane, ascending and behind all others."""
        first, last = int(slots[0]), int(slots[-1])
        span = self._spans.setdefault(pane, _Span(first, last, 0))
        span.last, span.count = last, span.count + len(slots)

    def slots_of(
        self,
        pane: int,
        base: int,
        times_at: Callable[[slice], NDArray[np.int64]],
        is_open: NDArray[np.bool_],
    ) -> NDArray[np.int64]:
        """The slots of a base pane, ascending, by the columns of the slots from `base` on."""
        span = self._spans[pane]
        where = slice(span.first - base, span.last + 1 - base)
        times_ms = times_at(where)
        mine = is_open[where] & (times_ms >= pane)
        later = [other for other in self._spans if other > pane]
        if later:  # what is open is of a pane that is known here
            mine &= times_ms < min(later)
        return np.flatnonzero(mine) + span.first

    def forget(self, pane: int) -> None:
        """The pane has settled: its impressions are not open any more."""
        del self._spans[pane]
