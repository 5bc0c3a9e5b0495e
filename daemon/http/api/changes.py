"""Which segments got better or worse: a window now against one an hour before. Pure.

A move is called only where it is beyond its noise. In the live view feedback is still to come,
which moves every segment alike: there one is called only where it moved against the rest as well.
"""

from collections.abc import Mapping, Sequence
from math import hypot
from statistics import NormalDist
from typing import Final, Literal, TypeAlias

import msgspec
import numpy as np
from numpy.typing import NDArray

from relevanced.metrics.lists import Floats
from relevanced.metrics.metric import Direction

from ...events.timestamps import timestamp_text
from ...exporter.pane_reader import Reading
from ...exporter.scores import optional
from ...exporter.snapshot import LIVE, Segment, WindowRows, estimates, sum_panes
from ...lane.paged_rows import Rows
from .history import metric_number
from .stretches import Span, Stretch, spans

Verdict: TypeAlias = Literal[
    "better", "worse", "moved", "level", "unripe", "too_few", "undefined", "no_traffic"
]

CALLS: Final[tuple[Verdict, ...]] = ("better", "worse", "moved")
FALSE_CALLS: Final = 0.001
"""Chance that any segment at all is called, at one look, though none has changed."""
DRIFT: Final = 0.006
"""Standard deviation of what a healthy search moves by in an hour, as a share of its mean."""
SCORED_ENOUGH: Final = 30
"""From here on a mean is near enough to normal."""


class Estimate(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A mean over a stretch and what it rests on."""

    mean: float | None
    """null where no impression has a defined value."""
    stderr: float | None
    """null below two scored impressions."""
    scored: int
    impressions: int


class Change(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One metric of one segment, now and before."""

    metric: str
    grouping: str
    segment: str
    now: Estimate
    before: Estimate
    difference: float | None
    """Now less before; null where either is undefined."""
    noise: float | None
    """Standard error of the difference, with the drift of a healthy search in it."""
    verdict: Verdict
    """`better`, `worse`: beyond the noise. `moved`: so, of a metric that has no better. `unripe`:
    so, in the live view, where feedback still to come may make up for it. `too_few`: scored
    impressions. `undefined`: one of the means. `no_traffic`: now or before."""
    since: str | None
    """When a move that was called began, as the panes tell."""


class Changes(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Every change asked for, segment by segment; null stretches where there is no time yet."""

    as_of: str | None
    window: str
    view: str
    now: Stretch | None
    before: Stretch | None
    beyond: float
    """How many times its noise a difference must exceed to be called: more, the more segments are
    looked at."""
    changes: tuple[Change, ...]


def changes(
    reading: Reading, window: str, view: str, wanted: Mapping[str, Sequence[str]]
) -> Changes:
    """The changes of the shown segments whose names have one of the wanted values each."""
    as_of_ms = reading.snapshot.as_of_ms
    as_of = None if as_of_ms is None else timestamp_text(as_of_ms)
    beyond = NormalDist().inv_cdf(1 - FALSE_CALLS / (2 * len(reading.selection.segments)))
    shown = [
        rows for rows in reading.snapshot.windows if (rows.window, rows.view) == (window, view)
    ]
    if not shown or shown[0].end_ms is None:
        return Changes(as_of, window, view, None, None, beyond, ())
    now, before = spans(reading, window, shown[0].end_ms)
    found = _Compared(reading, shown[0], now, before, beyond)
    names = wanted.get("metric") or [metric.name for metric in reading.plan.metrics]
    return Changes(
        as_of=as_of,
        window=window,
        view=view,
        now=now.said(),
        before=before.said(),
        beyond=beyond,
        changes=tuple(
            change for name in dict.fromkeys(names) for change in found.of_metric(name, wanted)
        ),
    )


def verdict(
    now: Estimate, before: Estimate, sizes: tuple[float, float | None], direction: Direction
) -> Verdict:
    """What is said of a change. `sizes`: by how many times what must be exceeded the difference is
    over 0, and over that of the rest (None where nothing is to be compared with)."""
    if not now.impressions or not before.impressions:
        return "no_traffic"
    if now.mean is None or before.mean is None:
        return "undefined"
    if min(now.scored, before.scored) < SCORED_ENOUGH:
        return "too_few"
    own, against_rest = sizes
    if abs(own) <= 1:
        return "level"
    if against_rest is None or against_rest * np.sign(own) <= 1:
        return "unripe"
    if direction == "none":
        return "moved"
    return "better" if (own > 0) == (direction == "up") else "worse"


def onsets(scored: Floats, sums: Floats) -> NDArray[np.intp]:
    """(panes, segments) → (segments,) numbers of the panes that begin the second of the two levels
    that fit the panes best (least squares over the scored impressions). At least two panes."""
    left, left_sum = np.cumsum(scored, 0)[:-1], np.cumsum(sums, 0)[:-1]
    right, right_sum = scored.sum(0) - left, sums.sum(0) - left_sum
    known = (left > 0) & (right > 0)
    first, second = (
        np.divide(total, count, out=np.zeros_like(count), where=known)
        for total, count in ((left_sum, left), (right_sum, right))
    )
    fit = np.where(known, (first - second) ** 2 * left * right, -1.0)
    return np.asarray(np.argmax(fit, axis=0) + 1, np.intp)


class _Compared:
    """The rows of both stretches, and what follows from them."""

    def __init__(
        self, reading: Reading, shown: WindowRows, now: Span, before: Span, beyond: float
    ) -> None:
        self.reading = reading
        self.live = shown.view == LIVE
        self.span, self.before_span = now, before
        self.now = reading.selection.fold(shown.rows)
        earlier = sum_panes(reading.snapshot, reading.views, before.window, before.starts)
        self.before = reading.selection.fold(earlier)
        self.beyond = beyond

    def of_metric(self, name: str, wanted: Mapping[str, Sequence[str]]) -> list[Change]:
        """The changes of one metric."""
        number = metric_number(self.reading.plan, name)
        now, before = (_estimates(rows, self, number) for rows in (self.now, self.before))
        sizes, direction = self._sizes(number), self.reading.plan.metrics[number].direction
        said = [verdict(*one, direction) for one in zip(now, before, sizes, strict=True)]
        asked = [
            (place, segment)
            for place, segment in enumerate(self.reading.selection.segments)
            if _is_wanted(segment, wanted)
        ]
        called = any(said[place] in CALLS for place, _ in asked)
        since = self._onsets(number) if called else [""] * len(said)
        return [
            Change(
                name,
                *segment,
                now=now[place],
                before=before[place],
                difference=_difference(now[place].mean, before[place].mean),
                noise=_noise(now[place], before[place]),
                verdict=said[place],
                since=since[place] if said[place] in CALLS else None,
            )
            for place, segment in asked
        ]

    def _sizes(self, number: int) -> list[tuple[float, float | None]]:
        own, noise = self._differences(self.now, self.before, number)
        own_sizes = (own / (self.beyond * noise)).tolist()
        if not self.live:
            return [(size, size) for size in own_sizes]
        rest, rest_noise = self._differences(
            self.now[:1] - self.now, self.before[:1] - self.before, number
        )
        against = ((own - rest) / (self.beyond * np.hypot(noise, rest_noise))).tolist()
        known = [None if np.isnan(size) else size for size in against]
        return list(zip(own_sizes, known, strict=True))

    def _differences(self, now: Rows, before: Rows, number: int) -> tuple[Floats, Floats]:
        plan = self.reading.plan
        (mean, error), (old_mean, old_error) = (
            estimates(rows, plan, number) for rows in (now, before)
        )
        noise = np.sqrt(error**2 + old_error**2 + (DRIFT * old_mean) ** 2)
        # Where nothing varies nothing is noise: a difference of 0 stays 0.
        return mean - old_mean, np.maximum(noise, np.finfo(float).tiny)

    def _onsets(self, number: int) -> list[str]:
        """When the level of each segment changed, as the panes of the stretch before tell: they
        reach up to now."""
        column = self.reading.plan.metric_column(number)
        starts = range(self.before_span.starts[0], self.span.end_ms, self.before_span.pane_ms)
        scored, sums = (
            self.reading.column(self.before_span.window, starts, number)
            for number in (column, column + 1)
        )
        return [timestamp_text(starts[place]) for place in onsets(scored, sums)]


def _estimates(rows: Rows, compared: _Compared, number: int) -> list[Estimate]:
    plan = compared.reading.plan
    means, errors = (optional(values) for values in estimates(rows, plan, number))
    scored = rows[:, plan.metric_column(number)].tolist()
    return [Estimate(*one) for one in zip(means, errors, scored, rows[:, 0].tolist(), strict=True)]


def _difference(now: float | None, before: float | None) -> float | None:
    return None if now is None or before is None else now - before


def _noise(now: Estimate, before: Estimate) -> float | None:
    if now.stderr is None or before.stderr is None or before.mean is None:
        return None
    return hypot(now.stderr, before.stderr, DRIFT * before.mean)


def _is_wanted(segment: Segment, wanted: Mapping[str, Sequence[str]]) -> bool:
    names = dict(zip(("grouping", "segment"), segment, strict=True))
    return all(name not in wanted or value in wanted[name] for name, value in names.items())
