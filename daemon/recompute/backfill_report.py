"""What became of a backfill, in words. Pure."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from ..events import timestamp_text
from ..plan import Plan
from ..storage import Filling
from ..views import COUNTS_CELL, Cells
from .whole_hours import FEWEST_SHARE

NOT_JUDGED: Final = "Judged scores are not filled: they begin where the lanes began to grade."


@dataclass(frozen=True)
class Filled:
    """What became of a run."""

    plan: Plan
    missing: range
    """From the first to the last hour of which the lanes lack something, by their starts; empty
    where nothing is missing."""
    source: str
    """Where the events came from."""
    whole: range = range(0)
    """From the first to the last hour that the source has whole, by their starts."""
    earlier: Sequence[Filling] = ()
    """What earlier runs filled."""
    gained: Mapping[int, Cells] | None = None
    """Start of an hour → what nothing else has of it."""
    lacking: int | None = None
    """How many hours of `missing` the lanes lack something of; None: all."""
    left_out: Sequence[int] = ()
    """The starts of the hours of which the source may lack events."""
    already: Sequence[int] = ()
    """The starts of the whole hours of the source of which earlier runs filled what the lanes
    lack."""
    asked: range = range(0)
    """The hours that were looked at, by their starts."""
    is_cut: bool = False
    """Whether earlier ones were asked for, which are kept no longer."""

    @property
    def is_filled(self) -> bool:
        """Whether nothing is missing that could be filled."""
        return not self.missing or bool(self.gained) or bool(self.already)


def lines(filled: Filled) -> Iterator[str]:
    """A run in words."""
    if filled.is_cut:
        first = timestamp_text(filled.asked.start)
        yield f"Hours before {first} are kept no longer (history.days)."
    if not filled.missing:
        hours = _span(filled.asked)
        yield f"Nothing is missing: the lanes, or earlier runs, have every column of {hours}."
        return
    yield f"Some or all columns are missing: {_span(filled.missing, filled.lacking)}."
    if filled.gained:
        gained = range_of(filled.gained, filled.plan.hour_ms)
        yield f"Filled from {filled.source}: {_span(gained, len(filled.gained))}."
        yield from (f"  {line}" for line in _columns(filled.plan, filled.gained))
        if filled.plan.judged is not None:
            yield NOT_JUDGED
    elif filled.already:
        already = _span(range_of(filled.already, filled.plan.hour_ms), len(filled.already))
        yield f"Filled already, as far as {filled.source} has it: {already}."
    else:
        yield f"Nothing was filled: {filled.source} has no whole hour of what is missing."
        yield from _left_out(filled)
        for each in filled.earlier:
            span = range(each.first_ms, each.until_ms, filled.plan.hour_ms)
            yield f"Filled earlier, from {each.source}: {_span(span)}."
        return
    yield from _left_out(filled)
    if filled.whole.start > filled.missing.start:
        before = timestamp_text(filled.whole.start)
        yield f"Earlier ones stay as they are: {filled.source} has no whole hour before {before}."
    if filled.whole.stop < filled.missing.stop:
        after = timestamp_text(filled.whole.stop)
        yield f"Hours from {after} on stay as they are: {filled.source} ends, or feedback may come."


def _left_out(filled: Filled) -> Iterator[str]:
    """Why hours of the source were not taken, and the way out."""
    if filled.left_out:
        hours = range_of(filled.left_out, filled.plan.hour_ms)
        yield f"Left out of {filled.source}: {_span(hours, len(filled.left_out))}."
        yield (
            f"  These hours, or one beside each, have under {FEWEST_SHARE:.0%} of the impressions"
            " of the busiest hour within a week: events may be missing. If none are, add --whole."
        )


def range_of(starts: Collection[int], hour_ms: int) -> range:
    """From the first to the last of some hours."""
    return range(min(starts), max(starts) + hour_ms, hour_ms)


def _span(hours: range, among: int | None = None) -> str:
    """`among`: how many of these hours it is about; None: all."""
    count = f"{len(hours)} hour{'s' * (len(hours) > 1)}"
    count = count if among in (None, len(hours)) else f"{among} of {count}"
    return f"{timestamp_text(hours.start)} to {timestamp_text(hours.stop)} ({count})"


def _columns(plan: Plan, gained: Mapping[int, Cells]) -> Iterator[str]:
    """A line for each kind of column that was gained, with its hours."""
    counts = sum(bool(cells[0, COUNTS_CELL]) for cells in gained.values())
    if counts:
        yield f"hours that the lanes do not have: {counts}"
    for line, name in enumerate(plan.grouping_names[1:], 1):
        of_grouping = (c for c in gained.values() if c[line, COUNTS_CELL] and not c[0, COUNTS_CELL])
        if count := sum(1 for _ in of_grouping):
            yield f"grouping {name}: {count}"
    for index, metric in enumerate(plan.metrics):
        of_metric = (c for c in gained.values() if c[0, 1 + index] and not c[0, COUNTS_CELL])
        if count := sum(1 for _ in of_metric):
            yield f"metric {metric.name}: {count}"
