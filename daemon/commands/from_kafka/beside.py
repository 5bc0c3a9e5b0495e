"""Hourly scores that were computed anew beside the stored ones, of clicks and of judgements. Pure.

What a lane has refused makes a difference to judged scores: hours are graded anew by the whole
index, and those in Redis were graded by the files that the lanes had adopted.
"""

from collections.abc import Iterator, Sequence
from typing import Final, TypeAlias

import numpy as np
from rich.table import Table
from rich.text import Text

from relevanced.metrics.lists import Integers

from ...events.timestamps import instant_ms, timestamp_text
from ...judging import sentences
from ...plan import Plan
from .. import score_rows
from ..recorded.judged_report import NOTHING_JUDGED, title_of
from ..score_rows import Row
from .hour_rows import HourRows, Segment
from .judged_hours import AllHours, empty

LEGEND: Final = "Computed now / stored; –: there is none. *: {} may still come."
_STORED: Final = ("mean", "stderr", "scored", "impressions")
FIELDS: Final = ("start", *score_rows.FIELDS, "settled", *(f"stored_{name}" for name in _STORED))
"""`settled` is False where feedback may still come, or searches to be judged."""
JUDGED_FIELDS: Final = ("judged_metric", "judgements", "stored_judgements")
"""The fields that only judged scores have; these have no `metric`."""
_Files: TypeAlias = tuple[str | None, str | None]
"""The names of the file that graded now and of the one that had graded."""


def scores(
    computed: HourRows, stored: HourRows, busiest: Sequence[Segment] | None = None
) -> Iterator[Row]:
    """A row for each hour, segment with an impression, and metric of the computed ones: of these
    segments, or of the busiest ones."""
    busiest = computed.busiest() if busiest is None else busiest
    for start in computed.starts:
        at, settled = timestamp_text(start), computed.is_settled(start)
        rows, stored_rows = computed.rows[start], stored.settled_rows(start)
        for segment in busiest:
            other = stored_rows.get(segment)
            known = (
                {} if other is None else {r["metric"]: r for r in _of(other, segment, stored.plan)}
            )
            absent = {} if other is None else {"impressions": int(other[0])}
            for row in _of(rows[segment], segment, computed.plan) if segment in rows else ():
                before = known.get(row["metric"], absent)
                beside = {f"stored_{name}": before.get(name) for name in _STORED}
                yield {"start": at, **row, "settled": settled, **beside}


def _of(row: Integers, segment: Segment, plan: Plan) -> Iterator[Row]:
    return score_rows.rows_of(row[np.newaxis], [segment], plan)


def judged_scores(computed: AllHours, stored: AllHours) -> Iterator[Row]:
    """The same by judgements."""
    if computed.judged is None:
        return
    now = computed.judged
    before = stored.judged or empty(computed.clicks.plan, computed.clicks.span)
    for row in scores(now.known(), before.known(), computed.clicks.busiest()):
        at_ms = instant_ms(row["start"])
        files = dict(judgements=now.file_of(at_ms), stored_judgements=before.file_of(at_ms))
        yield score_rows.judged(row, **files)


def all_scores(computed: AllHours, stored: AllHours) -> list[Row]:
    """The rows of both."""
    return [*scores(computed.clicks, stored.clicks), *judged_scores(computed, stored)]


def as_csv(computed: AllHours, stored: AllHours) -> str:
    """A header, and a line for each row."""
    header = FIELDS if computed.judged is None else (*FIELDS, *JUDGED_FIELDS)
    return score_rows.as_csv(header, all_scores(computed, stored))


def as_tables(computed: AllHours, stored: AllHours) -> Iterator[Table | str]:
    """A line for each hour and segment, and a column for each metric; then the same for each file
    that graded now, and the one that had graded."""
    yield _table([*scores(computed.clicks, stored.clicks)], "metric", "feedback")
    by_files: dict[_Files, list[Row]] = {}
    for row in judged_scores(computed, stored):
        by_files.setdefault((row["judgements"], row["stored_judgements"]), []).append(row)
    for (now, before), rows in by_files.items():
        title = title_of(now or "–")
        if before is not None and before != now:
            title += Text(f" / {sentences.printable(before)}")
        yield _table(rows, "judged_metric", "searches", title)
    if computed.judged is not None and not by_files:
        yield NOTHING_JUDGED


def _table(rows: Sequence[Row], metric: str, waits_for: str, title: Text | None = None) -> Table:
    return score_rows.as_table(
        rows,
        dict.fromkeys(row[metric] for row in rows),
        lambda row: _pair(row, "mean", "{:.4f}"),
        counts={"impressions": lambda row: _pair(row, "impressions", "{:,}")},
        caption=LEGEND.format(waits_for),
        title=title,
    )


def _pair(row: Row, name: str, form: str) -> str:
    values = (row[name], row[f"stored_{name}"])
    return " / ".join("–" if value is None else form.format(value) for value in values)
