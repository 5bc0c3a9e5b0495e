"""Where lists are shown, as far as it says how likely their ranks are looked at. Pure.

A surface (a page of one kind on devices of one kind) has a table of propensities. Which surface an
impression was shown on is told by an attribute, and fixed on arrival like its segments.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Final

import numpy as np

from relevanced.metrics.lists import Booleans, Floats
from relevanced.metrics.propensities import CLIP, Propensities

UNKNOWN: Final = 0
"""Number of no surface: propensities of its ranks are not known."""


@dataclass(frozen=True)
class Surfaces:
    """The tables, and what tells them apart. Surfaces are numbered from 1, in their order."""

    attribute: str
    tables: tuple[Propensities, ...]
    default: str | None = None
    """The surface of impressions that tell none, or one without a table; None: they have none."""
    clip: float = CLIP
    """Largest weight of a reaction."""

    @cached_property
    def _numbers(self) -> Mapping[str | None, int]:
        return {table.surface: number for number, table in enumerate(self.tables, 1)}

    def told_by(self, attributes: Mapping[str, str | None]) -> str | None:
        """The surface that an impression with these attributes counts for."""
        told = attributes.get(self.attribute)
        return told if told in self._numbers else self.default

    def number(self, surface: str | None) -> int:
        """The number of a surface."""
        return self._numbers.get(surface, UNKNOWN)

    def weights(self, depth: int) -> Floats:
        """(surfaces, depth) what a reaction at each rank counts, by number; NaN for no surface."""
        known = [table.weights(depth, self.clip) for table in self.tables]
        return np.array([np.full(depth, np.nan), *known])

    def clipped(self, depth: int) -> Booleans:
        """(surfaces, depth) where the weight is less than 1 / propensity, being cut."""
        known = [table.inverse(depth) > self.clip for table in self.tables]
        return np.array([np.zeros(depth, np.bool_), *known])
