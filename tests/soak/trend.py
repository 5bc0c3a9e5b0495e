"""Detects growth: a regression line through samples, with its standard error. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

BLOCKS: Final = 12
"""Consecutive samples are correlated: only the means of this many blocks count as independent."""
SIGNIFICANT: Final = 3.0
"""Standard errors above the bound from which a slope counts as growth."""


@dataclass(frozen=True)
class Trend:
    """Slope of a quantity per hour of event time, and its standard error."""

    name: str
    slope: float
    error: float
    bound: float
    """The allowed slope."""
    steady: float
    """Median slope between neighbouring blocks: of what is taken once it is that of the others."""
    last: float

    @property
    def grows(self) -> bool:
        is_beyond = self.slope - SIGNIFICANT * self.error > self.bound
        return is_beyond and self.steady > self.bound

    def text(self) -> str:
        verdict = "GROWS" if self.grows else "flat"
        return (
            f"{self.name:<22} {self.last:>13,.0f} at the end, {self.slope:>+14,.2f} "
            f"± {self.error:,.2f} an hour (bound {self.bound:,.1f}): {verdict}"
        )


def trend(name: str, hours: Sequence[float], values: Sequence[float], bound: float) -> Trend:
    """The least-squares line through the means of blocks of samples."""
    if len(hours) < 2 * BLOCKS:
        raise ValueError(f"{name}: {len(hours)} samples, must be at least {2 * BLOCKS}")
    x = np.array([block.mean() for block in np.array_split(np.array(hours, float), BLOCKS)])
    y = np.array([block.mean() for block in np.array_split(np.array(values, float), BLOCKS)])
    spread = float(((x - x.mean()) ** 2).sum())
    slope = float(((x - x.mean()) * (y - y.mean())).sum()) / spread
    residuals = y - y.mean() - slope * (x - x.mean())
    error = float(np.sqrt((residuals**2).sum() / (BLOCKS - 2) / spread))
    steady = float(np.median(np.diff(y) / np.diff(x)))
    return Trend(name, slope, error, bound, steady, float(values[-1]))
