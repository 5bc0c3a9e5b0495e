"""Impressions on their way into a lane, as columns. Pure."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from .columns.texts import Joined, piece
from .searches import Searches
from .subjects import Subjects


@dataclass(frozen=True)
class NewImpressions:
    """Impressions to add, (n,) of each; texts as `Texts.extend` takes them."""

    ids: Joined
    items: Joined
    times_ms: NDArray[np.int64]
    panes: NDArray[np.int64]
    combinations: NDArray[np.int64]
    states: NDArray[np.int64]
    hashes: NDArray[np.int64]
    subjects: Subjects | None = None
    searches: Searches | None = None

    def part(self, start: int, stop: int) -> "NewImpressions":
        """The impressions from `start` to before `stop`."""
        if (start, stop) == (0, len(self.times_ms)):
            return self
        part = slice(start, stop)
        return NewImpressions(
            ids=piece(self.ids, start, stop),
            items=piece(self.items, start, stop),
            times_ms=self.times_ms[part],
            panes=self.panes[part],
            combinations=self.combinations[part],
            states=self.states[part],
            hashes=self.hashes[part],
            subjects=self.subjects and self.subjects.part(start, stop),
            searches=self.searches and self.searches.part(start, stop),
        )
