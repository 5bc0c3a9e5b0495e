"""Rates of rare events, with their intervals."""

from scipy import stats


def per_thousand(count: int, weeks: float) -> str:
    """Events per 1,000 series-weeks with the exact 95 % interval of a Poisson count."""
    low = stats.chi2.ppf(0.025, 2 * count) / 2 if count else 0.0
    high = stats.chi2.ppf(0.975, 2 * count + 2) / 2
    scale = 1_000 / weeks
    return f"{count * scale:.2f} ({low * scale:.2f}–{high * scale:.2f})"
