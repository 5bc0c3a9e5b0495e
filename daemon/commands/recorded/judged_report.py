"""What `replay` says of judged scores. Pure."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import groupby
from typing import Final, Literal

import msgspec
from rich.table import Table
from rich.text import Text

from ...events.timestamps import timestamp_text
from ...exporter import snapshot
from ...exporter.judged import IMPRESSIONS, Scorer, judged_shares, rows_plan
from ...exporter.lane_view import LaneView
from ...exporter.pane_reader import Reading
from ...exporter.scores import Score, optional
from ...exporter.selection import Selection
from ...exporter.snapshot import EVERYTHING, estimates
from ...http.api.dated_files import DatedFile, dated_file
from ...http.api.judged import JudgedScore, judged
from ...judgements.index import Entry
from ...judging import sentences
from ...lane.judged import row_width
from ...lane.lane import Lane
from ...lane.paged_rows import PagedRows
from ...plan import Plan
from .. import score_rows
from ..score_rows import Row
from .judged import JudgedHours
from .views import selection_of, view_of

NOTHING_JUDGED = "By judgements: no file judges a query of these searches at their time."
JUDGED_FIELDS: Final = ("judged_metric", "items_share", "judgements")
"""The fields that only judged scores have; these have no `metric`."""


class ReplayJudged(msgspec.Struct, frozen=True):
    """The judged scores of recorded events."""

    until: str | None
    """Event time before which judged scores are final. The windows end there; `all` goes on to the
    end of the files."""
    depth: int
    """The first so many places are looked at for `items_share`."""
    unjudged: Literal["zero", "skip"]
    """What an item without a judgement is: one without gain, or none at all."""
    late: dict[str, int]
    """Records of judged queries that came too late to be graded."""
    files: tuple[DatedFile, ...]
    """Those that judged an impression."""
    scores: tuple[JudgedScore, ...]
    """Those of the window `all` come first, for each file apart: what two files grade is not
    added."""


def judged_report(lane: Lane, hours: JudgedHours) -> ReplayJudged:
    """The judged scores of the lane: of everything that each file graded, and of the windows that
    end where judged rows are final. Raises OverflowError."""
    plan, view = lane.plan, view_of(lane)
    assert plan.judged is not None
    whole = snapshot.evaluate([view], plan, view.names.segments)
    shown = selection_of(lane)
    graded = [replace(view, judged=replace(hours.view(lane), hours={}))]
    found = Scorer(plan).of(graded, whole.as_of_ms, shown)
    windows = judged(Reading(plan, graded, whole, shown, by_judgements=found), {})
    by_file = hours.by_file(lane)
    files = {entry: dated_file(entry) for entry in by_file}
    return ReplayJudged(
        until=windows.until,
        depth=plan.judged.depth,
        unjudged=plan.judged.unjudged,
        late=dict(lane.counts["judged_late"]),
        files=tuple(files.values()),
        scores=(*_everything(by_file, view, shown, rows_plan(plan)), *windows.scores),
    )


def _everything(
    by_file: Mapping[Entry, PagedRows], view: LaneView, shown: Selection, plan: Plan
) -> Iterator[JudgedScore]:
    assert plan.judged is not None
    for entry, sums in by_file.items():
        rows = shown.fold_pages(sums.pages, view.names, row_width(plan.judged))
        shares, impressions = optional(judged_shares(rows)), rows[:, IMPRESSIONS].tolist()
        for index, metric in enumerate(plan.metrics):
            means, errors = (optional(values) for values in estimates(rows, plan, index))
            scored = rows[:, plan.metric_column(index)].tolist()
            for row, (grouping, segment) in enumerate(shown.segments):
                yield JudgedScore(
                    judged_metric=metric.name,
                    grouping=grouping,
                    segment=segment,
                    window=EVERYTHING,
                    mean=means[row],
                    stderr=errors[row],
                    scored=int(scored[row]),
                    impressions=int(impressions[row]),
                    items_share=shares[row],
                    since=timestamp_text(entry.start_ms),
                    judgements=entry.name,
                )


def as_csv(scores: Sequence[Score], report: ReplayJudged) -> str:
    """A header, a line for each score, and one for each judged score, which has a `judged_metric`
    in place of a `metric`."""
    rows = map(msgspec.structs.asdict, (*scores, *report.scores))
    return score_rows.as_csv((*Score.__struct_fields__, *JUDGED_FIELDS), rows)


def as_tables(report: ReplayJudged) -> Iterator[Table | str]:
    """A table for each file: a line for each segment, and a column for each metric."""
    scores = [score for score in report.scores if score.window == EVERYTHING]
    for name, of_file in groupby(scores, key=lambda score: score.judgements):
        yield _table(name, [score for score in of_file if score.impressions], report.depth)
    if not scores:
        yield NOTHING_JUDGED
    if report.late:
        late = ", ".join(f"{label} {count:,}" for label, count in report.late.items())
        yield f"Too late to be graded: {late}"


def _table(name: str, scores: list[JudgedScore], depth: int) -> Table:
    return score_rows.as_table(
        map(msgspec.structs.asdict, scores),
        dict.fromkeys(score.judged_metric for score in scores),
        _mean,
        names=("grouping", "segment"),
        counts={
            "impressions": lambda row: f"{row['impressions']:,}",
            "judged": lambda row: share_text(row["items_share"]),
        },
        caption=judged_note(depth),
        title=Text(f"{EVERYTHING}, ") + title_of(name),
    )


def title_of(name: str) -> Text:
    """Of a table of what one file graded."""
    return Text(f"by judgements: {sentences.printable(name)}")


def judged_note(depth: int) -> str:
    """What its column `judged` is."""
    return f"judged: share of the first {depth} places whose item is judged."


def share_text(share: float | None) -> str:
    """How much of the first places is judged."""
    return "–" if share is None else f"{share:.1%}"


def _mean(row: Row) -> str:
    if row["mean"] is None:
        return "undefined"
    return f"{row['mean']:.4f}" + ("" if row["stderr"] is None else f" ±{row['stderr']:.4f}")
