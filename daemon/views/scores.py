"""The scores of a snapshot as one object, and that object as JSON, CSV or a table. Pure.

Four states stay apart: not counted over all of the window (`scored` is null, and `since` says from
when on it is), no traffic (`impressions` is 0), undefined (`mean` is null though there are
impressions) and a mean of 0. CSV is safe to open: names of segments come from events, so anybody
may choose them, and a spreadsheet would run a text that begins like a formula. Such a text gets an
apostrophe before it, as in spreadsheets themselves.
"""

import csv
import io
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

import msgspec
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table
from rich.text import Text

from relevanced.metrics import Floats

from ..changes import WHOLE
from ..events import escaped_formula, timestamp_text
from ..lane import FEEDBACK_OUTCOMES, IMPRESSION_OUTCOMES, Rows
from ..plan import COUNT_COLUMNS, Plan
from .lane_view import Coverage
from .selection import Selection
from .snapshot import Segment, Snapshot, WindowRows, estimates


def csv_text(
    header: Iterable[str], rows: Iterable[Iterable[object]], *, exact: bool = False
) -> str:
    """A header, and a line for each row; None is an empty field. What a spreadsheet would take for
    a formula begins with an apostrophe, unless the text is to be `exact`: for programs."""
    text = io.StringIO()
    plain = csv.writer(text, lineterminator="\n")
    quoted = csv.writer(text, lineterminator="\n", quoting=csv.QUOTE_ALL)
    plain.writerow(header)
    for row in rows:
        cells = [_csv_cell(value, exact) for value in row]
        # The writer quotes a carriage return only where its own lines end with one.
        writer = quoted if any("\r" in cell for cell in cells if isinstance(cell, str)) else plain
        writer.writerow(cells)
    return text.getvalue()


def _csv_cell(value: object, exact: bool) -> object:
    if isinstance(value, str) and not exact:
        return escaped_formula(value)
    return "" if value is None else value


MEAN_OF_RR: Final = "MRR is the mean of RR."
ONE_ERROR: Final = "± is one standard error."
NOT_YET: Final = "not yet"
"""In place of a number that is counted since a part of the window only."""
_UNBOUNDED: Final = 100_000
_SEGMENT_WIDTH: Final = 40


class Score(msgspec.Struct, frozen=True, forbid_unknown_fields=True, gc=False):
    """One metric of one segment in one view of a window."""

    metric: str
    grouping: str
    segment: str
    window: str
    view: str
    mean: float | None
    """None where no impression has a defined value."""
    stderr: float | None
    """None below two scored impressions."""
    scored: int | None
    """None where not all of the window has the metric: see `since`."""
    impressions: int | None
    """None where not all of the window has the grouping."""
    zero_results: int | None
    """Impressions with an empty list; None as for impressions."""
    since: str | None = None
    """From when on the metric is counted, where the window begins earlier: it is not shown until
    all of the window has it."""


class Events(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Counts of the events since the lanes began, by outcome."""

    impressions: int
    feedback: int
    rejected: dict[str, int]
    """Only reasons that occurred. Outcomes are all listed."""
    dropped_values: dict[str, int]
    """Of attributes and experiments; only reasons that occurred."""
    feedback_outcomes: dict[str, int]
    impression_outcomes: dict[str, int]


class Report(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The object that `relevanced replay` prints and the API serves."""

    as_of: str | None
    events: Events
    scores: tuple[Score, ...]


def report(snapshot: Snapshot, selection: Selection, plan: Plan) -> Report:
    """The scores of the selected segments, window by window, segment by segment."""
    scores: list[Score] = []
    for window in snapshot.windows:
        scores.extend(_window_scores(window, selection, plan, snapshot.coverage))
    as_of = None if snapshot.as_of_ms is None else timestamp_text(snapshot.as_of_ms)
    return Report(as_of, _events(snapshot), tuple(scores))


def optional(values: Floats) -> list[float | None]:
    """The numbers; None where they are NaN."""
    return [None if math.isnan(value) else value for value in values.tolist()]


def optional_counts(values: Rows | Floats) -> list[int | None]:
    """The counts, (n,); None where they are NaN."""
    return [None if math.isnan(value) else round(value) for value in values.tolist()]


def to_json(result: Report) -> bytes:
    """One line of JSON without a line end; the same report gives the same bytes."""
    return msgspec.json.encode(result)


def to_csv(result: Report) -> str:
    """A header and one line per score; an undefined number is an empty field."""
    return csv_text(Score.__struct_fields__, map(msgspec.structs.astuple, result.scores))


def matching(result: Report, wanted: Mapping[str, Sequence[str]]) -> Report:
    """The report with only those scores that have one of the wanted values in each named field."""
    scores: Iterable[Score] = result.scores
    for name, values in wanted.items():
        accepted = frozenset(values)
        scores = [score for score in scores if getattr(score, name) in accepted]
    return msgspec.structs.replace(result, scores=tuple(scores))


def to_table(result: Report, window: str, view: str, *, width: int = 120) -> str:
    """One view of a window as a table, segments down and metrics across, with notes on what is left
    out.

    Standard errors are shown if the table then fits into `width` characters; numbers are never
    cut.
    """
    scores = [score for score in result.scores if (score.window, score.view) == (window, view)]
    title = f"{window} {view}, as of {result.as_of or '(no time yet)'}"
    console = Console(file=io.StringIO(), width=_UNBOUNDED, force_terminal=False)
    table, notes = _table(scores, title, errors=True), [ONE_ERROR, *_notes(scores)]
    if console.measure(table).maximum > width:
        table, notes = _table(scores, title, errors=False), _notes(scores)
    with console.capture() as capture:
        console.print(table)
        for line in notes:
            console.print(line, markup=False, highlight=False)
    return "".join(line.rstrip() + "\n" for line in capture.get().split("\n")).rstrip() + "\n"


def _events(snapshot: Snapshot) -> Events:
    return Events(
        impressions=snapshot.count("events", "impression"),
        feedback=snapshot.count("events", "feedback"),
        rejected=_counts(snapshot, "rejected", ()),
        dropped_values=_counts(snapshot, "dropped_values", ()),
        feedback_outcomes=_counts(snapshot, "feedback_outcomes", FEEDBACK_OUTCOMES),
        impression_outcomes=_counts(snapshot, "impression_outcomes", IMPRESSION_OUTCOMES),
    )


def _counts(snapshot: Snapshot, family: str, always: Sequence[str]) -> dict[str, int]:
    """Label → count, of those counted and of those that are always listed, by name."""
    counted = {label: count for label, count in snapshot.counts.get(family, {}).items() if count}
    return {label: counted.get(label, 0) for label in sorted({*always, *counted})}


def _window_scores(
    window: WindowRows, selection: Selection, plan: Plan, coverage: Coverage | None
) -> Iterable[Score]:
    rows: Rows | Floats = selection.fold(window.rows)
    if coverage is not None:
        rows = coverage.known(rows, selection.segments, window.first_ms)
    impressions = optional_counts(rows[:, COUNT_COLUMNS.index("impressions")])
    zero_results = optional_counts(rows[:, COUNT_COLUMNS.index("zero_result_impressions")])
    at = [span.name for span in plan.timing.windows].index(window.window) if coverage else 0
    columns = []
    for index, metric in enumerate(plan.metrics):
        means, errors = (optional(values) for values in estimates(rows, plan, index))
        scored = optional_counts(rows[:, plan.metric_column(index)])
        columns.append((index, metric.name, means, errors, scored))
    for row, (grouping, segment) in enumerate(selection.segments):
        for index, name, means, errors, scored in columns:
            since_ms = None if coverage is None else coverage.since(index, grouping, at)
            missing = since_ms is not None and since_ms > window.first_ms
            yield Score(
                name,
                grouping,
                segment,
                window.window,
                window.view,
                means[row],
                errors[row],
                scored[row],
                impressions[row],
                zero_results[row],
                timestamp_text(since_ms) if since_ms is not None and missing else None,
            )


def _table(scores: Sequence[Score], title: str, *, errors: bool) -> Table:
    metrics = list(dict.fromkeys(score.metric for score in scores))
    table = Table(title=Text(title), title_justify="left", box=SIMPLE_HEAD)
    table.add_column("grouping", no_wrap=True)
    table.add_column("segment", overflow="fold", max_width=_SEGMENT_WIDTH)
    for name in ("impressions", "no result", *metrics):
        table.add_column(Text(name), justify="right", no_wrap=True)
    rows: dict[Segment, dict[str, Score]] = {}
    for score in scores:
        rows.setdefault((score.grouping, score.segment), {})[score.metric] = score
    for (grouping, segment), row in rows.items():
        first = next(iter(row.values()))
        cells = [_cell(row[name], errors) for name in metrics]
        counts = [
            NOT_YET if count is None else f"{count:,}"
            for count in (first.impressions, first.zero_results)
        ]
        table.add_row(_visible(grouping), _visible(segment), *counts, *cells)
    return table


def _cell(score: Score, errors: bool) -> str:
    if score.impressions is None or score.scored is None:
        return NOT_YET
    if score.impressions == 0:
        return "no traffic"
    if score.mean is None:
        return "undefined"
    if errors and score.stderr is not None:
        return f"{score.mean:.4f} ±{score.stderr:.4f}"
    return f"{score.mean:.4f}"


def _visible(text: str) -> Text:
    """The text with control characters, which a terminal would act upon, as escapes."""
    return Text(
        "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)
    )


def _notes(scores: Sequence[Score]) -> list[str]:
    """How many impressions of the whole each metric leaves out, and what a mean of RR is."""
    notes = [] if scores else ["No scores."]
    for score in scores:
        undefined = (score.impressions or 0) - (score.scored or 0)
        is_known = score.scored is not None
        if (score.grouping, score.segment) == WHOLE and is_known and undefined:
            notes.append(
                f"{score.metric}: {undefined:,} of {score.impressions:,} impressions left out "
                "as undefined."
            )
    if any(score.metric.startswith("RR") for score in scores):
        notes.append(MEAN_OF_RR)
    return notes
