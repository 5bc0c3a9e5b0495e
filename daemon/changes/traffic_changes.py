"""What changed in the data behind the scores: of a segment almost no searches are left, fewer of
them get feedback, or more return no results. Pure.

What an open change of a score tells already is left out.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final, Literal, TypeAlias

import numpy as np

from relevanced.metrics import Booleans, Floats, Integers

from .evidence import share_z
from .settings import WHOLE, ChangeSettings, Urgency

TrafficMetric: TypeAlias = Literal["impressions", "feedback_share", "zero_results_share"]
TRAFFIC_COUNTS: Final = 3
"""The first columns of rows of clicks: impressions, those with feedback, those with an empty
list."""
_IMPRESSIONS, _WITH_FEEDBACK, _EMPTY = range(TRAFFIC_COUNTS)
CLEAR_HOUR: Final = 4.0
"""Standard errors of a share in the last hour, where the last six hours are beyond
`CLEAR_SIX_HOURS` too."""
CLEAR_SIX_HOURS: Final = 3.0


@dataclass(frozen=True, eq=False)
class TrafficSides:
    """A window beside the mean of its earlier periods: (segments, `TRAFFIC_COUNTS`) counts, NaN
    where they are not known."""

    now: Floats
    before: Floats
    periods: Integers | int
    """In how many of them each segment is known, (segments,), or all."""

    def shares(self, column: int) -> tuple[Floats, Floats]:
        """The share of impressions that a column counts, now and before: (segments,) each."""
        return (
            _ratio(self.now[:, column], self.now[:, _IMPRESSIONS]),
            _ratio(self.before[:, column], self.before[:, _IMPRESSIONS]),
        )

    def z(self, column: int, settings: ChangeSettings) -> Floats:
        """The change of that share in standard errors: (segments,)."""
        sizes = self.now[:, _IMPRESSIONS], self.before[:, _IMPRESSIONS] * self.periods
        noise = settings.design_effect, settings.share_drift_ratio
        return share_z(*self.shares(column), *sizes, *noise)


@dataclass(frozen=True, eq=False)
class Standing:
    """What is told for longer than a week, and so as a ticket: of what is no worse than it has been
    since then it tells still."""

    is_of_whole: bool
    """Whether it paged: then it tells of all searches, else of those of segments alone."""
    hour: TrafficSides | None
    """The last hour beside one during it; None where that is unknown, and nothing is known to be
    worse."""
    six_hours: TrafficSides | None


@dataclass(frozen=True)
class TrafficChange:
    """A number of a segment that is far from what is usual in the last hour."""

    segment: tuple[str, str]
    metric: TrafficMetric
    before: float
    """What is usual: a share of the impressions, or impressions."""
    now: float
    z: float | None = None
    """The change of a share in standard errors."""

    @property
    def urgency(self) -> Literal["page", "ticket"]:
        """That of all searches pages."""
        return "page" if self.segment == WHOLE else "ticket"


def traffic_changes(
    segments: Sequence[tuple[str, str]],
    hour: TrafficSides,
    six_hours: TrafficSides | None,
    settings: ChangeSettings,
    told: Mapping[tuple[str, str], Urgency] = MappingProxyType({}),
    standing: Standing | None = None,
    *,
    has_gap: bool = False,
) -> Iterator[TrafficChange]:
    """Those of the last hour; of shares those that the last six hours confirm.

    `settings` have the design effect that is used. `told` is segment → urgency of the change of
    scores by feedback that tells of its hour: one that pages tells of all shares, a ticket of those
    of segments. `standing`: those among them that stand.
    `has_gap`: some of the hour is a time without feedback, whose share says nothing.
    """
    yield from _silent(segments, hour, settings)
    if six_hours is None:
        return
    is_whole = np.array([segment == WHOLE for segment in segments], np.bool_)
    are_told = np.where(is_whole, "page" in told.values(), bool(told))
    counts = (hour.now[:, _IMPRESSIONS] >= settings.smallest_sample) & ~are_told
    shares: tuple[tuple[TrafficMetric, int, float, float], ...] = (
        ("feedback_share", _WITH_FEEDBACK, -1.0, settings.feedback_share_drop_ratio),
        ("zero_results_share", _EMPTY, 1.0, settings.zero_results_rise_ratio),
    )
    for metric, column, worse, far in shares[1:] if has_gap else shares:
        now, before = hour.shares(column)
        z = hour.z(column, settings)
        is_news = counts & _are_worse(hour, six_hours, column, worse, far, settings)
        if standing is not None:
            sides = standing.hour, standing.six_hours
            is_news &= _are_worse(*sides, column, worse, far, settings) | (
                is_whole & (not standing.is_of_whole)
            )
        for at in np.flatnonzero(is_news).tolist():
            values = float(before[at]), float(now[at]), float(z[at])
            yield TrafficChange(segments[at], metric, *values)


def _are_worse(
    hour: TrafficSides | None,
    six_hours: TrafficSides | None,
    column: int,
    worse: float,
    far: float,
    settings: ChangeSettings,
) -> Booleans:
    """(segments,), or one for all where a side is unknown: whether the share that a column counts
    is far and clearly worse in the last hour, and in the last six. `worse`: the sign of that."""
    if hour is None or six_hours is None:
        return np.zeros(1, np.bool_)
    now, before = hour.shares(column)
    is_far = worse * (now - before) > far * before
    is_clear = worse * hour.z(column, settings) > CLEAR_HOUR
    is_confirmed = worse * six_hours.z(column, settings) > CLEAR_SIX_HOURS
    return np.asarray(is_far & is_clear & is_confirmed, np.bool_)


def _silent(
    segments: Sequence[tuple[str, str]], hour: TrafficSides, settings: ChangeSettings
) -> Iterator[TrafficChange]:
    """The segments with almost no impressions left. That all of them stop is known sooner."""
    now, before = hour.now[:, _IMPRESSIONS], hour.before[:, _IMPRESSIONS]
    few = (before >= settings.smallest_sample) & (now < before * settings.no_data_ratio)
    for at in np.flatnonzero(few).tolist():
        if segments[at] != WHOLE:
            yield TrafficChange(segments[at], "impressions", float(before[at]), float(now[at]))


def _ratio(value: Floats, by: Floats) -> Floats:
    """NaN where `by` is 0."""
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.asarray(value / np.where(by == 0, np.nan, by))
