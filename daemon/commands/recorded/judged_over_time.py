"""Judged scores over time: in each bucket the rows of each file of judgements, apart. Pure.

A new file is a new measure, so what two files graded in one bucket is not added.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final

import msgspec
from rich.table import Table

from ...events.timestamps import timestamp_text
from ...exporter.csv_cells import csv_text
from ...exporter.judged import judged_shares, rows_plan
from ...exporter.scores import optional
from ...judgements.index import Entry
from ...judging.ledger import MIXED
from ...lane.lane import Lane
from ...lane.paged_rows import Pages
from ...storage.packing import unpack_page
from .buckets import OverTime
from .judged import JudgedHours
from .judged_report import JUDGED_FIELDS, judged_note, share_text, title_of
from .over_time import BucketScore, Column, scores, table_of
from .views import view_of

CUT: Final = "searches may have come after the end of the files"


@dataclass(frozen=True, eq=False)
class OfFile:
    """What one file of judgements graded."""

    judgements: str
    """Name of the file; `mixed` of a pane within which a file starts."""
    over_time: OverTime
    """By judged rows. Settled is what no later search can change."""


class JudgedBucketScore(msgspec.Struct, frozen=True, gc=False):
    """One judged metric of one segment in one bucket of event time."""

    start: str
    grouping: str
    segment: str
    judged_metric: str
    """Name of the metric that is scored by judgements."""
    mean: float | None
    stderr: float | None
    """null below two scored impressions."""
    scored: int
    impressions: int
    """Impressions whose query is judged."""
    settled: bool
    """False where searches may have come after the end of the files."""
    items_share: float | None
    """Share of the first places of their lists whose item is judged."""
    judgements: str
    """Name of the file that graded."""


def judged_over_time(
    hours: JudgedHours, lane: Lane, clicks: OverTime, span: range
) -> tuple[OfFile, ...]:
    """The judged rows of a lane that is finished, in the buckets and segments of `clicks`, by the
    start of the file that graded them."""
    by_files: dict[tuple[Entry, ...], list[tuple[int, Pages]]] = {}
    for start, packed in hours.hours.items():
        pages = {page: unpack_page(data) for page, data in packed.items()}
        if any(rows.any() for rows in pages.values()):
            files = _files_of(hours, start, lane.plan.hour_ms)
            by_files.setdefault(files, []).append((start, pages))
    plan = replace(rows_plan(lane.plan), hour_ms=clicks.plan.hour_ms)
    names, found = view_of(lane).names, list[OfFile]()
    for files, parts in sorted(by_files.items()):
        of = OverTime.of_parts(parts, names, clicks.selection, plan, span, hours.final_ms)
        if len(of.starts):
            found.append(OfFile(files[0].name if len(files) == 1 else MIXED, of))
    return tuple(found)


def _files_of(hours: JudgedHours, start: int, length_ms: int) -> tuple[Entry, ...]:
    """The files that graded a part of a bucket: one, or two where one starts within it."""
    found = {hours.timeline.in_force(time) for time in (start, start + length_ms - 1)}
    return tuple(sorted(entry for entry in found if entry is not None))


def judged_scores(files: Sequence[OfFile]) -> Iterator[JudgedBucketScore]:
    """A row for each bucket, file, segment with a judged impression, and metric."""
    rows = [(score, of.judgements, share) for of in files for score, share in _with_shares(of)]
    for score, judgements, share in sorted(rows, key=lambda row: row[0].start):
        yield JudgedBucketScore(
            start=score.start,
            grouping=score.grouping,
            segment=score.segment,
            judged_metric=score.metric,
            mean=score.mean,
            stderr=score.stderr,
            scored=score.scored,
            impressions=score.impressions,
            settled=score.settled,
            items_share=share,
            judgements=judgements,
        )


def _with_shares(of: OfFile) -> Iterator[tuple[BucketScore, float | None]]:
    found, shares = of.over_time, dict[tuple[str, str, str], float | None]()
    for start, rows in zip(found.starts.tolist(), found.rows, strict=True):
        at = timestamp_text(start)
        for segment, share in zip(found.selection.segments, optional(judged_shares(rows))):
            shares[at, *segment] = share
    for score in scores(found):
        yield score, shares[score.start, score.grouping, score.segment]


def as_csv(clicks: OverTime, files: Sequence[OfFile]) -> str:
    """A header, the rows of `clicks`, and the judged ones, which have a `judged_metric` in place of
    a `metric`; null is an empty field."""
    header = (*BucketScore.__struct_fields__, *JUDGED_FIELDS)
    rows = (*scores(clicks), *judged_scores(files))
    return csv_text(header, ([getattr(row, name, None) for name in header] for row in rows))


def as_json_lines(files: Sequence[OfFile]) -> str:
    """A JSON object a line."""
    return "".join(msgspec.json.encode(one).decode() + "\n" for one in judged_scores(files))


def as_tables(files: Sequence[OfFile]) -> Iterator[Table]:
    """A table for each file."""
    for of in files:
        shares = {
            (score.start, score.grouping, score.segment): share for score, share in _with_shares(of)
        }
        column = Column("judged", {at: share_text(share) for at, share in shares.items()})
        table = table_of(of.over_time, CUT, column)
        table.title, table.title_justify = title_of(of.judgements), "left"
        assert of.over_time.plan.judged is not None
        note = judged_note(of.over_time.plan.judged.depth)
        table.caption = note if table.caption is None else f"{table.caption}\n{note}"
        yield table
