"""What `replay --every` and `replay --changes` print. Pure."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final

from rich.table import Table

from ...events.timestamps import timestamp_text
from ...judging import sentences
from ...judging.incidents import Incident
from ...judging.story import Story
from .. import score_rows
from ..score_rows import Row
from .buckets import OverTime

NOTHING_SETTLED: Final = (
    "Nothing has settled: the files end before the attribution window of their first searches has"
    " passed. Record for longer, or configure a shorter attribution.window."
)
CUT: Final = "feedback may have come after the end of the files"
"""What may be missing of a bucket that has not settled."""
NOTHING_FELL: Final = "No score fell by more than chance explains."


FIELDS: Final = ("start", *score_rows.FIELDS, "settled")
"""`settled` is False where feedback may have come after the end of the files."""


def scores(found: OverTime) -> Iterator[Row]:
    """A row for each bucket, segment with an impression, and metric."""
    for start, rows in zip(found.starts.tolist(), found.rows, strict=True):
        settled = start + found.plan.hour_ms <= found.settled_ms
        at = timestamp_text(start)
        for row in score_rows.rows_of(rows, found.selection.segments, found.plan, start=at):
            yield row | {"settled": settled}


def as_table(found: OverTime, rows: Iterable[Row], cut: str = CUT, **more: Any) -> Table:
    """A line for each bucket and segment, and a column for each metric. `cut`: what may be missing
    of buckets that have not settled."""
    note = [f"*: {cut}."] if _is_cut(found) else []
    counts = {"impressions": lambda row: f"{row['impressions']:,}", **more.pop("counts", {})}
    metrics = [metric.name for metric in found.plan.metrics]
    notes = "\n".join([*note, *more.pop("notes", ())]) or None
    return score_rows.as_table(rows, metrics, mean_of, counts=counts, caption=notes, **more)


def mean_of(row: Row) -> str:
    """The mean of a row, for people."""
    return "undefined" if row["mean"] is None else f"{row['mean']:.4f}"


def _is_cut(found: OverTime) -> bool:
    return len(found.settled.starts) < len(found.starts)


def changes_text(
    found: OverTime, incidents: Sequence[Incident], judged_until_ms: int | None
) -> Iterator[str]:
    """What fell by the buckets that have settled, and by those that are judged for good where any
    are: a line for each incident, and what else is known of it."""
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


def _sentence(story: Story, now_ms: int) -> str:
    if story.fall.ended_ms is None:
        return sentences.headline(story, now_ms)
    return sentences.recovery(story, now_ms)
