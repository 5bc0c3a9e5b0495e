"""Which of the open impressions belong to a base pane.

A list of slots per pane would take as much memory as the times, from which the panes follow. So
only the first and the last slot of each pane are stored, and its impressions are searched between
them when it settles. Impressions arrive roughly in the order of time, so these spans are short.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from relevanced.metrics.lists import Integers


@dataclass
class _Span:
    """The first and the last slot of a pane, and how many of its impressions are between them."""

    first: int
    last: int
    count: int


class PaneSpans:
    """The base panes of the open impressions."""

    def __init__(self) -> None:
        self._spans: dict[int, _Span] = {}

    def __iter__(self) -> Iterator[int]:
        return iter(self._spans)

    @property
    def impressions(self) -> int:
        """Return how many impressions all panes have."""
        return sum(span.count for span in self._spans.values())

    @property
    def first_slot(self) -> int | None:
        """Return the lowest slot of an open impression; None where there is none."""
        return min((span.first for span in self._spans.values()), default=None)

    def note(self, pane: int, slots: Integers) -> None:
        """Add new impressions of a base pane: their slots, (n,), ascending and above all others."""
        first, last = int(slots[0]), int(slots[-1])
        span = self._spans.setdefault(pane, _Span(first, last, 0))
        span.last, span.count = last, span.count + len(slots)

    def slots_of(
        self,
        pane: int,
        base: int,
        times_at: Callable[[slice], Integers],
        is_open: NDArray[np.bool_],
    ) -> Integers:
        """Return the open slots of a base pane, (n,), ascending.

        `times_at` and `is_open` are the columns of the slots from `base` on.
        """
        span = self._spans[pane]
        where = slice(span.first - base, span.last + 1 - base)
        times_ms = times_at(where)
        is_member = is_open[where] & (times_ms >= pane)
        later = [other for other in self._spans if other > pane]
        # Every open impression is of one of these panes: where there is no later one, none of a
        # later time is open.
        if later:
            is_member &= times_ms < min(later)
        return np.flatnonzero(is_member) + span.first

    def forget(self, pane: int) -> None:
        """Remove a pane that has settled: its impressions are open no more."""
        del self._spans[pane]
