"""A snapshot for people and programs: one object, as JSON, CSV or a table. Pure.

Three things stay three: no traffic (`impressions` is 0), undefined (`mean` is null though there are
impressions) and a mean of 0.
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

from relevanced.metrics.lists import Floats

from ..events.timestamps import timestamp_text
from ..lane.counts import FEEDBACK_OUTCOMES, IMPRESSION_OUTCOMES
from ..plan import COUNT_COLUMNS, Plan
from .selection import Selection
from .snapshot import WHOLE, Segment, Snapshot, WindowRows, estimates

MEAN_OF_RR: Final = "MRR is the mean of RR."
ONE_ERROR: Final = "± is one standard error."
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
    scored: int
    impressions: int
    zero_results: int
    """Impressions with an empty list."""


class Events(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What was read since the lanes began, and what became of it."""

    impressions: int
    feedback: int
    rejected: dict[str, int]
    """Only reasons that occurred. The outcomes are all there."""
    dropped_values: dict[str, int]
    """Of attributes and experiments; only reasons that occurred."""
    feedback_outcomes: dict[str, int]
    impression_outcomes: dict[str, int]


class Report(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The object that the replay prints and the HTTP interface serves."""

    as_of: str | None
    events: Events
    scores: tuple[Score, ...]


def report(snapshot: Snapshot, shown: Selection, plan: Plan) -> Report:
    """The scores of the segments shown, window by window, segment by segment."""
    scores: list[Score] = []
    for window in snapshot.windows:
        scores.extend(_window_scores(window, shown, plan))
    as_of = None if snapshot.as_of_ms is None else timestamp_text(snapshot.as_of_ms)
    return Report(as_of, _events(snapshot), tuple(scores))


def optional(values: Floats) -> list[float | None]:
    """The numbers, None where they are undefined."""
    return [None if math.isnan(value) else value for value in values.tolist()]


def to_json(result: Report) -> bytes:
    """One line of JSON without an end of line, the same bytes for the same report."""
    return msgspec.json.encode(result)


def to_csv(result: Report) -> str:
    """A header and one line per score; an undefined number is an empty field."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(Score.__struct_fields__)
    writer.writerows(msgspec.structs.astuple(score) for score in result.scores)
    return text.getvalue()


def matching(result: Report, wanted: Mapping[str, Sequence[str]]) -> Report:
    """The report with the scores whose fields have one of the wanted values each."""
    scores: Iterable[Score] = result.scores
    for name, values in wanted.items():
        accepted = frozenset(values)
        scores = [score for score in scores if getattr(score, name) in accepted]
    return msgspec.structs.replace(result, scores=tuple(scores))


def to_table(result: Report, window: str, view: str, *, width: int = 120) -> str:
    """One view of a window for people: segments down, metrics across, and what was left out.

    Standard errors are shown where they fit into `width` characters; numbers are never cut.
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
        rejected=_known_and_counted(snapshot, "rejected", ()),
        dropped_values=_known_and_counted(snapshot, "dropped_values", ()),
        feedback_outcomes=_known_and_counted(snapshot, "feedback_outcomes", FEEDBACK_OUTCOMES),
        impression_outcomes=_known_and_counted(
            snapshot, "impression_outcomes", IMPRESSION_OUTCOMES
        ),
    )


def _known_and_counted(snapshot: Snapshot, family: str, known: Sequence[str]) -> dict[str, int]:
    counted = {label: count for label, count in snapshot.counts.get(family, {}).items() if count}
    return {label: counted.get(label, 0) for label in sorted({*known, *counted})}


def _window_scores(window: WindowRows, shown: Selection, plan: Plan) -> Iterable[Score]:
    rows = shown.fold(window.rows)
    impressions = rows[:, COUNT_COLUMNS.index("impressions")].tolist()
    zero_results = rows[:, COUNT_COLUMNS.index("zero_result_impressions")].tolist()
    columns = []
    for number, metric in enumerate(plan.metrics):
        means, errors = (optional(values) for values in estimates(rows, plan, number))
        scored = rows[:, plan.metric_column(number)].tolist()
        columns.append((metric.name, means, errors, scored))
    for place, (grouping, segment) in enumerate(shown.segments):
        for name, means, errors, scored in columns:
            yield Score(
                name,
                grouping,
                segment,
                window.window,
                window.view,
                means[place],
                errors[place],
                scored[place],
                impressions[place],
                zero_results[place],
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
        counts = (f"{first.impressions:,}", f"{first.zero_results:,}")
        table.add_row(_visible(grouping), _visible(segment), *counts, *cells)
    return table


def _cell(score: Score, errors: bool) -> str:
    if score.impressions == 0:
        return "no traffic"
    if score.mean is None:
        return "undefined"
    if errors and score.stderr is not None:
        return f"{score.mean:.4f} ±{score.stderr:.4f}"
    return f"{score.mean:.4f}"


def _visible(text: str) -> Text:
    """The text with what a terminal would act upon spelled out."""
    return Text(
        "".join(one if one.isprintable() else one.encode("unicode_escape").decode() for one in text)
    )


def _notes(scores: Sequence[Score]) -> list[str]:
    """What the numbers leave out, over the whole."""
    notes = [] if scores else ["No scores."]
    for score in scores:
        undefined = score.impressions - score.scored
        if (score.grouping, score.segment) == WHOLE and undefined:
            notes.append(
                f"{score.metric}: {undefined:,} of {score.impressions:,} impressions left out "
                "as undefined."
            )
    if any(score.metric.startswith("RR") for score in scores):
        notes.append(MEAN_OF_RR)
    return notes
