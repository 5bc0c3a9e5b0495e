"""What `replay` reports: scores, judged scores, experiments, and what became of every event."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import groupby
from typing import Final, Literal, TextIO

import msgspec
from rich.console import Console
from rich.table import Table
from rich.text import Text

from ..changes import sentences
from ..events import timestamp_text
from ..experiments import (
    Arm,
    DayEffect,
    Finding,
    Findings,
    effects_by_day,
    excluded_of,
    nothing_left,
    render_report,
    sample_ratio,
    shares_to_test,
    weights_within,
)
from ..exporter import (
    MeasureScores,
    Reading,
    Scorer,
    clicks_measure,
    judged_measure,
    rows_plan,
)
from ..http import DatedFile, JudgedScore, dated_file, judged, judged_scores
from ..judgements import IndexEntry
from ..lane import Lane, PagedRows, row_width
from ..plan import BY_JUDGEMENTS, Plan
from ..views import (
    EVERYTHING,
    LIVE,
    Events,
    LaneView,
    Report,
    Score,
    Selection,
    scores,
    snapshot,
)
from . import tables
from .buckets import JudgedHours, selection_of, view_of
from .files import Refused, refused_line


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
    graded = [replace(view, rows={BY_JUDGEMENTS: replace(hours.view(lane), hours={})})]
    clicks = MeasureScores(clicks_measure(plan), graded, whole, shown)
    found = Scorer(judged_measure(plan)).of(graded, whole, shown)
    windows = judged(Reading((clicks, found)), {})
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
    by_file: Mapping[IndexEntry, PagedRows], view: LaneView, shown: Selection, plan: Plan
) -> Iterator[JudgedScore]:
    assert plan.judged is not None
    for entry, sums in by_file.items():
        rows = shown.fold_pages(sums.pages, view.names, row_width(plan.judged))
        since = timestamp_text(entry.start_ms)
        labels = EVERYTHING, lambda grouping, since=since: since, entry.name
        segments = enumerate(shown.segments)
        yield from judged_scores(rows, plan, range(len(plan.metrics)), segments, labels)


def as_csv(scores: Sequence[Score], report: ReplayJudged) -> str:
    """A header, a line for each score, and one for each judged score, which has a `judged_metric`
    in place of a `metric`."""
    rows = map(msgspec.structs.asdict, (*scores, *report.scores))
    return tables.as_csv((*Score.__struct_fields__, *tables.JUDGED_FIELDS), rows)


def as_tables(report: ReplayJudged) -> Iterator[Table | str]:
    """A table for each file: a line for each segment, and a column for each metric."""
    scores = [score for score in report.scores if score.window == EVERYTHING]
    for name, of_file in groupby(scores, key=lambda score: score.judgements):
        yield _table(name, [score for score in of_file if score.impressions], report.depth)
    if not scores:
        yield tables.NOTHING_JUDGED
    if report.late:
        late = ", ".join(f"{label} {count:,}" for label, count in report.late.items())
        yield f"Too late to be graded: {late}"


def _table(name: str, scores: list[JudgedScore], depth: int) -> Table:
    return tables.as_table(
        map(msgspec.structs.asdict, scores),
        dict.fromkeys(score.judged_metric for score in scores),
        tables.judged_mean,
        names=("grouping", "segment"),
        counts={
            "impressions": lambda row: f"{row['impressions']:,}",
            "judged": lambda row: tables.share_text(row["items_share"]),
        },
        caption=tables.judged_note(depth),
        title=Text(f"{EVERYTHING}, ") + tables.title_of(name),
    )


WAITING: Final = "waiting"
"""The outcome of feedback that waits for its impression, or for its item, when the files end."""


class ReportedWindow(msgspec.Struct, frozen=True):
    """A window, and the view of it."""

    window: str
    view: str


WIDEST_TABLE: Final = 10_000
NARROWEST_TABLE: Final = 100
"""Columns of the table on a narrower terminal, or on none."""
WHOLE: Final = ReportedWindow(EVERYTHING, LIVE)
"""The window of everything in the files, settled or not. Its scores come first."""


class ReplayEvents(Events, frozen=True):
    """Counts of the events in the files. The feedback outcomes have `waiting` as well."""

    ignored_kinds: dict[str, int]
    """Kinds without a grade, the most frequent first; together as many as `ignored_kind`."""


class ReplayReport(msgspec.Struct, frozen=True):
    """The object that `replay --output json` prints: that of the API, and more."""

    as_of: str | None
    whole: ReportedWindow
    events: ReplayEvents
    refused: tuple[Refused, ...]
    """Each reason why something was refused or left out, the most frequent first."""
    scores: tuple[Score, ...]
    judged: ReplayJudged | None = None
    """None where [judgements] is off."""


def replay_report(
    report: Report,
    refused: Sequence[Refused],
    ignored_kinds: Mapping[str, int],
    waiting: int,
    judged: ReplayJudged | None = None,
) -> ReplayReport:
    """The report of a replay, from that of its lane."""
    events = msgspec.structs.asdict(report.events)
    events["feedback_outcomes"] = {**report.events.feedback_outcomes, WAITING: waiting}
    scores = sorted(report.scores, key=lambda score: score.window != EVERYTHING)
    return ReplayReport(
        as_of=report.as_of,
        whole=WHOLE,
        events=ReplayEvents(**events, ignored_kinds=dict(ignored_kinds)),
        refused=tuple(refused),
        scores=tuple(scores),
        judged=judged,
    )


def summary(report: ReplayReport) -> str:
    """What became of the events, a line each for impressions, feedback, and each reason of
    refusal."""
    events = report.events
    kinds = ", ".join(
        f"{sentences.printable(kind)} {n:,}" for kind, n in events.ignored_kinds.items()
    )
    details = {"ignored_kind": f" ({kinds})"} if kinds else {}
    lines = [
        f"{events.impressions:,} impressions: {_listed(events.impression_outcomes, {})}",
        f"{events.feedback:,} feedback: {_listed(events.feedback_outcomes, details)}",
    ]
    return "\n".join((*lines, *(refused_line(one) for one in report.refused)))


def _listed(counts: Mapping[str, int], details: Mapping[str, str]) -> str:
    found: Iterable[tuple[str, int]] = ((name, n) for name, n in counts.items() if n)
    return ", ".join(f"{name} {n:,}{details.get(name, '')}" for name, n in found) or "none"


class UnknownExperiment(Exception):
    """There is no experiment of this name; the text lists those that there are."""


def finding_of(findings: Findings, experiment: str) -> Finding:
    """The finding of one experiment. Raises UnknownExperiment."""
    for finding in findings.experiments:
        if finding.experiment == experiment:
            return finding
    names = ", ".join(finding.experiment for finding in findings.experiments) or "none"
    raise UnknownExperiment(f"{experiment}: no experiment of this name; known: {names}")


def with_days(findings: Findings, experiment: str, rows: tuple[DayEffect, ...]) -> Findings:
    """The findings, with the effect of one experiment by day."""
    return Findings(
        findings.as_of,
        tuple(
            (msgspec.structs.replace(one, by_day=rows) if one.experiment == experiment else one)
            for one in findings.experiments
        ),
    )


def experiment_report(findings: Findings, experiment: str, output: str) -> str:
    """The report of one experiment as `table` or `json`. Raises UnknownExperiment."""
    return render_report(finding_of(findings, experiment), findings.as_of, output)


def days_of(lane: Lane, experiment: str) -> tuple[DayEffect, ...]:
    """The effect of one experiment by day; none where the lane has no such experiment."""
    tracking, tallies = lane.plan.tracking, lane.experiments.by_name.get(experiment)
    spec = None if tracking is None else tracking.spec(experiment)
    if spec is None or tallies is None:
        return ()
    return effects_by_day(spec, [tallies], lane.plan.metrics)


class NothingLeft(Exception):
    """An exclusion covers all impressions of the experiment."""


def with_excluded(found: Findings, lane: Lane, experiment: str) -> Findings:
    """The findings, with what was left out of one experiment. Raises NothingLeft."""
    tracking = lane.plan.tracking
    spec = None if tracking is None else tracking.spec(experiment)
    if tracking is None or spec is None or not tracking.excluded:
        return found
    counted = lane.experiments.by_name.get(experiment)
    # An arm that lost nothing belongs to the ratio too.
    arms = {variant: Arm.empty(0) for variant in (counted.arms if counted else ())}
    arms |= lane.experiments.left_out.get(experiment, {})
    weights = weights_within(spec, tracking.excluded)
    srm = None
    if weights is not None:
        # What was lost does not say which shares are negligible: an arm may have lost nothing.
        known = arms if counted is None else {**arms, **counted.arms}
        srm = sample_ratio(spec, arms, shares_to_test(spec, known, weights))
    excluded = excluded_of(spec, tracking.excluded, arms, srm)
    kept = {one.experiment: one.impressions for one in found.experiments}
    if excluded.impressions and not kept.get(experiment):
        raise NothingLeft(nothing_left(experiment, tracking.excluded, excluded.impressions))
    return Findings(
        found.as_of,
        tuple(
            msgspec.structs.replace(one, excluded=excluded) if one.experiment == experiment else one
            for one in found.experiments
        ),
    )


def print_report(report: ReplayReport, output: str, stream: TextIO) -> None:
    """Print a report as `table`, `json` or `csv`."""
    of_scores = Report(report.as_of, report.events, report.scores)
    if output == "json":
        print(msgspec.json.encode(report).decode(), file=stream)
    elif output == "csv":
        text = None if report.judged is None else as_csv(report.scores, report.judged)
        print(scores.to_csv(of_scores) if text is None else text, end="", file=stream)
    else:
        width = max(Console(file=stream).width, NARROWEST_TABLE)
        whole = report.whole
        print(
            scores.to_table(of_scores, whole.window, whole.view, width=width), end="", file=stream
        )
        for part in () if report.judged is None else as_tables(report.judged):
            Console(file=stream, width=WIDEST_TABLE).print(part)
        print(summary(report), file=stream)
