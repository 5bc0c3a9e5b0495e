"""Rows of counters by segment number, in whole pages: only those that were touched cost memory.

Numbers of segments only grow while values come and go, so what is touched at any one time is a few
of all the pages there are. Pure.
"""

from collections.abc import Iterable, Mapping
from typing import Final, TypeAlias

import numpy as np
from relevanced.metrics.lists import Integers
from numpy.typing import NDArray

Rows: TypeAlias = Integers
"""(n, columns): counters of n segments."""
Pages: TypeAlias = Mapping[int, Rows]
"""Page → (PAGE_ROWS, columns): rows of the segments from PAGE_ROWS times the page on. Those of a
page that is not there are zeros."""

PAGE_ROWS: Final = 64
"""Segments in a page, the unit in which rows are held and stored."""
LARGEST_SUM: Final = 2**62
"""A sum that gets here is an error, while there is still room not to wrap."""
_SPARE: Final = 8
"""One page of room is left free for so many that are held: then growing costs little."""
_NOWHERE: Final = -1


class PagedRows:
    """Rows that a writer adds to. All methods that add raise OverflowError where a counter reaches
    2^62."""

    def __init__(self, width: int) -> None:
        self._page_numbers: list[int] = []
        self._rows = np.zeros((0, width), np.int64)
        """The pages in the order of `_page_numbers`, and room for more."""
        self._places = np.zeros(0, np.int32)
        """Page → its place in `_page_numbers`, or `_NOWHERE`."""

    @property
    def page_numbers(self) -> tuple[int, ...]:
        """The pages that were touched."""
        return tuple(self._page_numbers)

    @property
    def pages(self) -> Pages:
        """What is held, not copied."""
        return {page: self._at(place) for place, page in enumerate(self._page_numbers)}

    def page(self, page: int) -> Rows:
        """(PAGE_ROWS, columns), not copied. Raises LookupError where it is not held."""
        place = int(self._places[page])
        if place == _NOWHERE:
            raise LookupError(f"page {page}: is not held")
        return self._at(place)

    def add(self, segments: Integers, sums: Rows) -> set[int]:
        """Add to the rows of distinct segments; returns the pages that were touched."""
        if not len(segments):
            return set()
        pages = segments // PAGE_ROWS
        touched = set(pages.tolist())
        if int(pages.max()) >= len(self._places) or self._places.take(pages).min() == _NOWHERE:
            self._hold(touched)
        lines = (self._places.take(pages) - pages) * PAGE_ROWS + segments
        added = self._rows.take(lines, axis=0)
        added += sums
        _check_size(added)
        self._rows[lines] = added
        return touched

    def add_page(self, page: int, rows: Rows) -> None:
        """Add to all rows of a page."""
        self._hold((page,))
        into = self.page(page)
        into += rows
        _check_size(into)

    def set_page(self, page: int, rows: Rows) -> None:
        """Put (PAGE_ROWS, columns) in the place of a page."""
        self._hold((page,))
        self.page(page)[:] = rows

    def _at(self, place: int) -> Rows:
        return self._rows[place * PAGE_ROWS : (place + 1) * PAGE_ROWS]

    def _hold(self, pages: Iterable[int]) -> None:
        """Make room for the pages that are not held yet."""
        known = len(self._places)
        fresh = [page for page in pages if page >= known or self._places[page] == _NOWHERE]
        if not fresh:
            return
        beyond = max(fresh) + 1 - known
        if beyond > 0:
            more = np.full(beyond, _NOWHERE, np.int32)
            self._places = np.concatenate([self._places, more])
        for page in sorted(fresh):
            self._places[page] = len(self._page_numbers)
            self._page_numbers.append(page)
        needed = len(self._page_numbers) * PAGE_ROWS
        if needed > len(self._rows):
            room = len(self._page_numbers) + len(self._page_numbers) // _SPARE
            larger = np.zeros((room * PAGE_ROWS, self._rows.shape[1]), np.int64)
            larger[: len(self._rows)] = self._rows
            self._rows = larger


def _check_size(rows: Rows) -> None:
    largest = int(np.abs(rows).max())
    if largest >= LARGEST_SUM:
        raise OverflowError(f"a counter of {largest}: must stay below 2^62")


def take(pages: Pages, segments: NDArray[np.intp], width: int) -> Rows:
    """(segments, columns): rows by segment number."""
    wanted, which = np.unique(segments // PAGE_ROWS, return_inverse=True)
    nothing = np.zeros((PAGE_ROWS, width), np.int64)
    found = np.stack([nothing, *(pages.get(page, nothing) for page in wanted.tolist())])
    return np.asarray(found[which.reshape(-1) + 1, segments % PAGE_ROWS], np.int64)


def summed(parts: Iterable[Pages]) -> tuple[Pages, int]:
    """The sum of pages, and a bound of the magnitudes in it: where that is beyond int64 the sum may
    have wrapped."""
    together: dict[int, list[Rows]] = {}
    for pages in parts:
        for page, rows in pages.items():
            together.setdefault(page, []).append(rows)
    total: dict[int, Rows] = {}
    bound = 0
    for page, several in together.items():
        stacked = np.stack(several)
        total[page] = stacked.sum(axis=0)
        greatest = np.maximum(stacked.max(axis=(1, 2)), -stacked.min(axis=(1, 2)))
        bound = max(bound, sum(greatest.tolist()))
    return total, bound
