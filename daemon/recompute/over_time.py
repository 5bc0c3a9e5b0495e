"""Recorded scores over time, and which of them fell, as tables, rows and sentences.

Of clicks, a look after each bucket finds what fell, as the daemon looks. Judged scores are those of
each file of judgements apart: a new file is a new measure, so what two files graded is not added.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from operator import itemgetter
from typing import Any, Final

from rich.table import Table

from ..changes import (
    MIXED,
    ChangeSettings,
    FeedbackGap,
    Incident,
    Story,
    sentences,
)
from ..events import timestamp_text
from ..exporter import (
    Condition,
    Published,
    Publisher,
    best_case_of,
    judged_shares,
    rows_plan,
)
from ..judgements import IndexEntry
from ..lane import Lane, Pages, kept_rows, latest_ms
from ..panes import HOUR_MS, pane_start
from ..plan import BY_JUDGEMENTS, Plan
from ..storage import pack_page, unpack_page
from ..views import HourPages, LaneView, files_of, optional
from . import tables
from .buckets import BucketsOverTime, JudgedHours, view_of
from .driver import Settled
from .falls import lacking
from .tables import Row, judged_note, share_text, title_of

NOTHING_SETTLED: Final = (
    "Nothing has settled: the files end before the attribution window of their first searches has"
    " passed. Record for longer, or configure a shorter attribution.window."
)
CUT: Final = "feedback may have come after the end of the files"
"""What may be missing of a bucket that has not settled."""
NOTHING_FELL: Final = "No score fell by more than chance explains."


FIELDS: Final = ("start", *tables.FIELDS, "settled")
"""`settled` is False where feedback may have come after the end of the files."""


def scores(found: BucketsOverTime) -> Iterator[Row]:
    """A row for each bucket, segment with an impression, and metric."""
    for start, rows in zip(found.starts.tolist(), found.rows, strict=True):
        settled = start + found.plan.hour_ms <= found.settled_ms
        at = timestamp_text(start)
        for row in tables.rows_of(rows, found.selection.segments, found.plan, start=at):
            yield row | {"settled": settled}


def as_table(found: BucketsOverTime, rows: Iterable[Row], cut: str = CUT, **more: Any) -> Table:
    """A line for each bucket and segment, and a column for each metric. `cut`: what may be missing
    of buckets that have not settled."""
    note = [f"*: {cut}."] if _is_cut(found) else []
    counts = {"impressions": lambda row: f"{row['impressions']:,}", **more.pop("counts", {})}
    metrics = [metric.name for metric in found.plan.metrics]
    notes = "\n".join([*note, *more.pop("notes", ())]) or None
    mean = more.pop("mean", mean_of)
    return tables.as_table(rows, metrics, mean, counts=counts, caption=notes, **more)


def mean_of(row: Row) -> str:
    """The mean of a row, for people."""
    return "undefined" if row["mean"] is None else f"{row['mean']:.4f}"


def _is_cut(found: BucketsOverTime) -> bool:
    return len(found.settled.starts) < len(found.starts)


def changes_text(
    found: BucketsOverTime,
    incidents: Sequence[Incident],
    judged_until_ms: int | None,
    undecided: Sequence[Story] = (),
    gaps: Sequence[FeedbackGap] = (),
) -> Iterator[str]:
    """What fell by the buckets that have settled, and by those that are judged for good where any
    are: a line for each incident, and what else is known of it; for what nobody can tell, and for
    each time without feedback."""
    if not len(found.starts):
        yield NOTHING_SETTLED
    else:
        until = sentences.clock(found.end_ms, 0)
        yield f"Up to {until} UTC, where the feedback of all searches is known:"
    if judged_until_ms is not None:
        yield f"By judgements up to {sentences.clock(judged_until_ms, 0)} UTC."
    if not incidents and (judged_until_ms is not None or len(found.starts)):
        yield NOTHING_FELL
    end_ms = max(found.end_ms, judged_until_ms or 0)
    for incident in sorted(incidents, key=lambda incident: not incident.is_open):
        yield _sentence(incident.story, end_ms)
        if incident.is_open and (detail := sentences.detail(incident.story)):
            yield f"    {detail}"
        if incident.beside is not None:
            yield f"    {_sentence(incident.beside, end_ms)}"
    for story in undecided:
        yield _sentence(story, end_ms)
    for gap in gaps:
        yield sentences.no_feedback(gap, end_ms)
    lacks = lacking(found)
    if lacks is not None and len(found.starts):
        yield lacks


def _sentence(story: Story, now_ms: int) -> str:
    if story.fall.ended_ms is None:
        return sentences.headline(story, now_ms)
    return sentences.recovery(story, now_ms)


class Looks:
    """Looks at the lane of a replay."""

    def __init__(
        self,
        plan: Plan,
        change_settings: ChangeSettings,
        version_attribute: str | None = None,
        judged: JudgedHours | None = None,
    ) -> None:
        """`judged` takes the judged hours of the lane, before each look."""
        self.apart_ms = HOUR_MS
        """Event time between two looks. An exporter looks more often: a fall that begins and is
        over between two looks is not seen."""
        self._publisher = Publisher(plan, change_settings, version_attribute)
        self._plan, self._judged = plan, judged
        self._hours: dict[int, dict[int, bytes]] = {}
        self._looked_ms: int | None = None

    def take(self, settled: Settled) -> None:
        """See `LaneSink`: the hours, those that can still change too; and look if it is time."""
        lane = settled.lane
        if lane.settled_before is None:
            return
        for start, rows in lane.hours.items():
            self._hours[start] = {page: pack_page(rows.page(page)) for page in rows.page_numbers}
        first = kept_rows.kept_from(lane.settled_before, self._plan)
        self._hours = {start: pages for start, pages in self._hours.items() if start >= first}
        looked_ms = pane_start(lane.settled_before, self.apart_ms)
        if self._looked_ms is not None and looked_ms > self._looked_ms:
            self._publisher.publish([self._view(lane)], lane.watermark_ms or 0, with_series=False)
        self._looked_ms = looked_ms

    def finish(self, settled: Settled) -> None:
        """See `LaneSink`: the end is looked at where it is `published`."""

    def published(self, lane: Lane, words: str) -> Published:
        """What is served when all events have been applied; `words` say of what it is."""
        at_ms = lane.watermark_ms or 0
        found = self._publisher.publish([self._view(lane)], at_ms)
        return replace(found, conditions=(Condition("recording", True, words),), recording=words)

    def _view(self, lane: Lane) -> LaneView:
        kept: HourPages = dict(self._hours)
        return replace(
            view_of(lane),
            experiments=dict(lane.experiments.by_name),
            settled_before=lane.settled_before,
            hours=kept,
            rows={} if self._judged is None else {BY_JUDGEMENTS: self._judged.view(lane)},
            classes={
                attribute: files_of(lane.number, files.timeline, latest_ms(lane))
                for attribute, files in lane.class_files.items()
                if files.timeline is not None
            },
        )


JUDGED_CUT: Final = "searches may have come after the end of the files"


@dataclass(frozen=True, eq=False)
class OfFile:
    """What one file of judgements graded."""

    judgements: str
    """Name of the file; `mixed` of a pane within which a file starts."""
    over_time: BucketsOverTime
    """By judged rows. Settled is what no later search can change."""


def judged_over_time(
    hours: JudgedHours, lane: Lane, clicks: BucketsOverTime, span: range
) -> tuple[OfFile, ...]:
    """The judged rows of a lane that is finished, in the buckets and segments of `clicks`, by the
    start of the file that graded them."""
    by_files: dict[tuple[IndexEntry, ...], list[tuple[int, Pages]]] = {}
    for start, packed in hours.hours.items():
        pages = {page: unpack_page(data) for page, data in packed.items()}
        if any(rows.any() for rows in pages.values()):
            files = _files_of(hours, start, lane.plan.hour_ms)
            by_files.setdefault(files, []).append((start, pages))
    plan = replace(rows_plan(lane.plan), hour_ms=clicks.plan.hour_ms)
    names, found = view_of(lane).names, list[OfFile]()
    for files, parts in sorted(by_files.items()):
        of = BucketsOverTime.of_parts(parts, names, clicks.selection, plan, span, hours.final_ms)
        if len(of.starts):
            found.append(OfFile(files[0].name if len(files) == 1 else MIXED, of))
    return tuple(found)


def _files_of(hours: JudgedHours, start: int, length_ms: int) -> tuple[IndexEntry, ...]:
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
    best_case = best_case_of(found.plan)
    assert best_case is not None
    for row, best in zip(scores(found), scores(replace(found, plan=best_case)), strict=True):
        more = {
            "best_case": best["mean"],
            "best_case_stderr": best["stderr"],
            "items_share": shares[row["start"], row["grouping"], row["segment"]],
        }
        yield tables.judged(row, **more, judgements=of.judgements)


def all_scores(files: Sequence[OfFile]) -> list[Row]:
    """The rows of all files, by bucket."""
    return sorted((row for of in files for row in judged_scores(of)), key=itemgetter("start"))


def as_tables(files: Sequence[OfFile]) -> Iterator[Table]:
    """A table for each file."""
    for of in files:
        assert of.over_time.plan.judged is not None
        note = judged_note(of.over_time.plan.judged.depth)
        counts = {"judged": lambda row: share_text(row["items_share"])}
        yield as_table(
            of.over_time,
            judged_scores(of),
            JUDGED_CUT,
            mean=lambda row: tables.judged_mean(row | {"stderr": None}),
            counts=counts,
            notes=(note,),
            title=title_of(of.judgements),
        )
