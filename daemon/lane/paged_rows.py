"""Rows of counters by segment id, in whole pages: only those that were touched cost memory.

Segment ids only grow while values come and go, so at any one time a few of all the pages are
touched. A pane as long as the largest id would cost 40 kB for each new name, in the writer and in
readers, for ever. Pure.
"""

from collections.abc import Iterable, Mapping
from typing import Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from relevanced.metrics.lists import Integers

Rows: TypeAlias = Integers
"""(n, columns): counters of n segments."""
Pages: TypeAlias = Mapping[int, Rows]
"""Page number → (PAGE_ROWS, columns): rows of the segment ids from PAGE_ROWS times the number on.
The rows of a page that is not there are zeros."""

PAGE_ROWS: Final = 64
"""Segments in a page, the unit in which rows are allocated and stored."""
LARGEST_SUM: Final = 2**62
"""A sum that reaches this is an error: int64 wraps around only at twice as much."""
_SPARE: Final = 8
"""A spare page is allocated for each 8 in use, so that growing moves each row a few times only."""
_ABSENT: Final = -1


class PagedRows:
    """Rows that a writer adds to. All methods that add raise OverflowError where a counter reaches
    2^62."""

    def __init__(self, width: int) -> None:
        self._page_numbers: list[int] = []
        self._rows = np.zeros((0, width), np.int64)
        """The pages in the order of `_page_numbers`, and spare ones after them."""
        self._index = np.zeros(0, np.int32)
        """Page number → its index in `_page_numbers`, or `_ABSENT`."""

    @property
    def page_numbers(self) -> tuple[int, ...]:
        """The pages that were touched."""
        return tuple(self._page_numbers)

    @property
    def pages(self) -> Pages:
        """All pages that were touched, as views."""
        return {page: self._at(index) for index, page in enumerate(self._page_numbers)}

    def page(self, page: int) -> Rows:
        """(PAGE_ROWS, columns), a view. Raises LookupError where the page was never touched."""
        index = int(self._index[page])
        if index == _ABSENT:
            raise LookupError(f"page {page}: was never touched")
        return self._at(index)

    def add(self, segments: Integers, sums: Rows) -> set[int]:
        """Add to the rows of distinct segments; returns the numbers of their pages."""
        if not len(segments):
            return set()
        pages = segments // PAGE_ROWS
        touched = set(pages.tolist())
        if int(pages.max()) >= len(self._index) or self._index.take(pages).min() == _ABSENT:
            self._allocate(touched)
        lines = (self._index.take(pages) - pages) * PAGE_ROWS + segments
        added = self._rows.take(lines, axis=0)
        added += sums
        _check_size(added)
        self._rows[lines] = added
        return touched

    def add_page(self, page: int, rows: Rows) -> None:
        """Add to all rows of a page."""
        self._allocate((page,))
        into = self.page(page)
        into += rows
        _check_size(into)

    def set_page(self, page: int, rows: Rows) -> None:
        """Replace a page by these rows, (PAGE_ROWS, columns)."""
        self._allocate((page,))
        self.page(page)[:] = rows

    def _at(self, index: int) -> Rows:
        return self._rows[index * PAGE_ROWS : (index + 1) * PAGE_ROWS]

    def _allocate(self, pages: Iterable[int]) -> None:
        """Allocate those of the pages that are not there yet."""
        end = len(self._index)
        new = [page for page in pages if page >= end or self._index[page] == _ABSENT]
        if not new:
            return
        beyond = max(new) + 1 - end
        if beyond > 0:
            more = np.full(beyond, _ABSENT, np.int32)
            self._index = np.concatenate([self._index, more])
        for page in sorted(new):
            self._index[page] = len(self._page_numbers)
            self._page_numbers.append(page)
        needed = len(self._page_numbers) * PAGE_ROWS
        if needed > len(self._rows):
            capacity = len(self._page_numbers) + len(self._page_numbers) // _SPARE
            larger = np.zeros((capacity * PAGE_ROWS, self._rows.shape[1]), np.int64)
            larger[: len(self._rows)] = self._rows
            self._rows = larger


def _check_size(rows: Rows) -> None:
    largest = int(np.abs(rows).max())
    if largest >= LARGEST_SUM:
        raise OverflowError(f"a counter of {largest}: must stay below 2^62")


def take(pages: Pages, segments: NDArray[np.intp], width: int) -> Rows:
    """The rows of these segment ids, (segments, columns)."""
    page_numbers, which = np.unique(segments // PAGE_ROWS, return_inverse=True)
    zeros = np.zeros((PAGE_ROWS, width), np.int64)
    found = np.stack([zeros, *(pages.get(page, zeros) for page in page_numbers.tolist())])
    return np.asarray(found[which.reshape(-1) + 1, segments % PAGE_ROWS], np.int64)


def summed(parts: Iterable[Pages]) -> tuple[Pages, int]:
    """The sum of pages, and a bound on the magnitudes in it: where the bound is beyond int64, the
    sum may have wrapped around."""
    by_page: dict[int, list[Rows]] = {}
    for pages in parts:
        for page, rows in pages.items():
            by_page.setdefault(page, []).append(rows)
    total: dict[int, Rows] = {}
    bound = 0
    for page, addends in by_page.items():
        stacked = np.stack(addends)
        total[page] = stacked.sum(axis=0)
        greatest = np.maximum(stacked.max(axis=(1, 2)), -stacked.min(axis=(1, 2)))
        bound = max(bound, sum(greatest.tolist()))
    return total, bound
