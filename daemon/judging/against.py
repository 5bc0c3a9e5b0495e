"""The last hours against the same hours of earlier weeks or days. Pure."""

from math import sqrt

import numpy as np

from relevanced.metrics.lists import Floats

from .noise import Noise


def z_against(
    now: tuple[Floats, Floats],
    usual: tuple[Floats, Floats],
    drift_ratio: float | Floats,
    noise: Noise,
) -> Floats:
    """(series,): the change from what is usual in standard errors, as the alert rules have it.

    `now` and `usual` are ((series,) means, (series,) standard errors for independent impressions);
    `drift_ratio` is the standard deviation of the drift between them, as a share of the mean.
    """
    (mean, error), (base, base_error) = now, usual
    sampling = noise.design_effect * (error**2 + base_error**2)
    whole = np.sqrt(sampling + (drift_ratio * base) ** 2)
    return (mean - base) / np.maximum(whole, np.finfo(np.float64).tiny)


def drift_of(periods: int, unit: str, noise: Noise) -> float | Floats:
    """The drift between a period and the mean of so many earlier ones, as a share of the score."""
    return noise.between_days(unit) * sqrt(1 + 1 / periods)
