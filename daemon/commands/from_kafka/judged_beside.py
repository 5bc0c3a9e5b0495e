"""Hourly judged scores that were computed anew beside the stored ones. Pure.

What a lane has refused makes a difference here: hours are graded anew by the whole index, and those
in Redis were graded by the files that the lanes had adopted.
"""

from collections.abc import Iterator
from typing import Final, TypeAlias

import msgspec
from rich.table import Table
from rich.text import Text

from ...events.timestamps import instant_ms
from ...exporter.csv_cells import csv_text
from ...judging import sentences
from ..recorded.judged_report import NOTHING_JUDGED, title_of
from .beside import LEGEND, BesideScore, scores, table_of
from .judged_hours import AllHours, empty

MORE_FIELDS: Final = ("judged_metric", "judgements", "stored_judgements")
"""The fields that only judged scores have; these have no `metric`."""
_Files: TypeAlias = tuple[str | None, str | None]
"""The names of the file that graded now and of the one that had graded."""


class JudgedBesideScore(msgspec.Struct, frozen=True, gc=False):
    """One judged metric of one segment in one hour, computed now and as it is stored. null: there
    is none."""

    start: str
    grouping: str
    segment: str
    judged_metric: str
    mean: float | None
    stderr: float | None
    scored: int
    impressions: int
    """Impressions whose query is judged."""
    settled: bool
    """False where searches may still come."""
    stored_mean: float | None
    stored_stderr: float | None
    stored_scored: int | None
    stored_impressions: int | None
    judgements: str | None
    """Name of the file that graded now."""
    stored_judgements: str | None
    """Name of the file that had graded; `mixed` where lanes had different ones."""


def judged_scores(computed: AllHours, stored: AllHours) -> Iterator[JudgedBesideScore]:
    """A row for each hour, segment with a judged impression, and metric of the computed ones."""
    for one, files in _with_files(computed, stored):
        fields = msgspec.structs.asdict(one)
        yield JudgedBesideScore(
            judged_metric=fields.pop("metric"),
            **fields,
            judgements=files[0],
            stored_judgements=files[1],
        )


def _with_files(computed: AllHours, stored: AllHours) -> Iterator[tuple[BesideScore, _Files]]:
    if computed.judged is None:
        return
    now = computed.judged
    before = stored.judged or empty(computed.clicks.plan, computed.clicks.span)
    for one in scores(now.known(), before.known(), computed.clicks.busiest()):
        start_ms = instant_ms(one.start)
        yield one, (now.file_of(start_ms), before.file_of(start_ms))


def as_csv(computed: AllHours, stored: AllHours) -> str:
    """A header, a line for each score, and one for each judged score, which has a `judged_metric`
    in place of a `metric`; null is an empty field."""
    header = (*BesideScore.__struct_fields__, *MORE_FIELDS)
    rows = (*scores(computed.clicks, stored.clicks), *judged_scores(computed, stored))
    return csv_text(header, ([getattr(row, name, None) for name in header] for row in rows))


def as_json_lines(computed: AllHours, stored: AllHours) -> str:
    """A JSON object a line."""
    lines = (msgspec.json.encode(one).decode() for one in judged_scores(computed, stored))
    return "".join(f"{line}\n" for line in lines)


def as_tables(computed: AllHours, stored: AllHours) -> Iterator[Table | str]:
    """A table for each file that graded now, and the one that had graded."""
    by_files: dict[_Files, list[BesideScore]] = {}
    for one, files in _with_files(computed, stored):
        by_files.setdefault(files, []).append(one)
    for (now, before), rows in by_files.items():
        table = table_of(rows, LEGEND.replace("feedback", "searches"))
        table.title, table.title_justify = title_of(now or "–"), "left"
        if before is not None and before != now:
            table.title += Text(f" / {sentences.printable(before)}")
        yield table
    if computed.judged is not None and not by_files:
        yield NOTHING_JUDGED
