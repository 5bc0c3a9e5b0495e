"""Judged scores over time: in each bucket the rows of each file of judgements, apart. Pure.

A new file is a new measure, so what two files graded in one bucket is not added.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from operator import itemgetter
from typing import Final

from rich.table import Table

from ...events.timestamps import timestamp_text
from ...exporter.judged import judged_shares, rows_plan
from ...exporter.scores import optional
from ...judgements.index import Entry
from ...judging.ledger import MIXED
from ...lane.lane import Lane
from ...lane.paged_rows import Pages
from ...storage.packing import unpack_page
from .. import score_rows
from ..score_rows import Row
from .buckets import OverTime
from .judged import JudgedHours
from .judged_report import judged_note, share_text, title_of
from .over_time import as_table, scores
from .views import view_of

CUT: Final = "searches may have come after the end of the files"


@dataclass(frozen=True, eq=False)
class OfFile:
    """What one file of judgements graded."""

    judgements: str
    """Name of the file; `mixed` of a pane within which a file starts."""
    over_time: OverTime
    """By judged rows. Settled is what no later search can change."""


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


def judged_scores(of: OfFile) -> Iterator[Row]:
    """A row for each bucket, segment with a judged impression, and metric."""
    found, shares = of.over_time, dict[tuple[str, str, str], float | None]()
    for start, rows in zip(found.starts.tolist(), found.rows, strict=True):
        at = timestamp_text(start)
        for segment, share in zip(found.selection.segments, optional(judged_shares(rows))):
            shares[at, *segment] = share
    for row in scores(found):
        share = shares[row["start"], row["grouping"], row["segment"]]
        yield score_rows.judged(row, items_share=share, judgements=of.judgements)


def all_scores(files: Sequence[OfFile]) -> list[Row]:
    """The rows of all files, by bucket."""
    return sorted((row for of in files for row in judged_scores(of)), key=itemgetter("start"))


def as_tables(files: Sequence[OfFile]) -> Iterator[Table]:
    """A table for each file."""
    for of in files:
        assert of.over_time.plan.judged is not None
        note = judged_note(of.over_time.plan.judged.depth)
        counts = {"judged": lambda row: share_text(row["items_share"])}
        title = title_of(of.judgements)
        yield as_table(
            of.over_time, judged_scores(of), CUT, counts=counts, notes=(note,), title=title
        )
