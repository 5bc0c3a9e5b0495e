"""Print and draw the scores of recorded events over time."""

import sys
from collections.abc import Sequence
from typing import Final

from rich.console import Console

from ...config.loading import Config
from ...exporter.selection import Selection
from ...judging.story import Story
from ...judging.incidents import incidents
from .. import score_rows
from . import judged_over_time, over_time
from .asked import Asked
from .buckets import OverTime
from .falls import fallen, judged_fallen
from .judged import rows_of
from .judged_over_time import OfFile
from .judged_report import JUDGED_FIELDS, NOTHING_JUDGED
from .pipeline import Replayed
from .views import selection_of

WIDEST_TABLE: Final = 10_000


def print_over_time(replayed: Replayed, config: Config, asked: Asked, output: str) -> int:
    """Print the scores in each bucket, or which scores fell, and draw them; returns the exit
    code."""
    lane, span = replayed.lane, range(asked.from_ms, asked.to_ms)
    assert replayed.buckets is not None
    shown = selection_of(lane)
    by_judgements = _judged_fallen(replayed, shown, config, asked)
    judged_ms = None if replayed.judged is None else rows_of(lane).final_before
    replayed.buckets.finish(lane)
    found, judged = OverTime.of(replayed.buckets, lane, shown, span, lane.plan), None
    if replayed.judged is not None:
        replayed.judged.finish(lane)
        judged = judged_over_time.judged_over_time(replayed.judged, lane, found, span)
    stories = fallen(found.settled, config.resolved_judging) if asked.needs_changes else ((), ())
    if asked.changes:
        both = (*stories[0], *stories[1])
        found_incidents = incidents(both, by_judgements, lane.plan.timing.attribution_ms)
        for line in over_time.changes_text(found.settled, found_incidents, judged_ms):
            print(line)
    elif asked.every_ms is not None:
        _print(found, judged, output)
    if asked.plot is None:
        return 0
    return _draw(found, judged or (), (*stories[0], *stories[1]), asked.plot)


def _judged_fallen(
    replayed: Replayed, shown: Selection, config: Config, asked: Asked
) -> tuple[Story, ...]:
    """The falls of judged scores, where it is asked which fell. Before the lane is finished."""
    if replayed.judged is None or replayed.buckets is None or not asked.changes:
        return ()
    span, length_ms = range(asked.from_ms, asked.to_ms), replayed.buckets.length_ms
    judging = config.resolved_judging
    found = judged_fallen(replayed.judged, replayed.lane, shown, span, length_ms, judging)
    return (*found[0], *found[1])


def _print(found: OverTime, judged: Sequence[OfFile] | None, output: str) -> None:
    """`judged`: None where nothing is graded."""
    rows = [*over_time.scores(found), *judged_over_time.all_scores(judged or ())]
    if output == "csv":
        header = over_time.FIELDS if judged is None else (*over_time.FIELDS, *JUDGED_FIELDS)
        print(score_rows.as_csv(header, rows), end="")
    elif output == "json":
        print(score_rows.as_json_lines(rows), end="")
    else:
        console = Console(width=WIDEST_TABLE)
        console.print(over_time.as_table(found, over_time.scores(found)))
        for table in judged_over_time.as_tables(judged or ()):
            console.print(table)
        if judged == ():
            print(NOTHING_JUDGED)


def _draw(found: OverTime, judged: Sequence[OfFile], changes: Sequence[Story], path: str) -> int:
    try:
        from .plot import plot  # matplotlib is optional, and slow to load
    except ModuleNotFoundError as error:
        if error.name is None or error.name.partition(".")[0] != "matplotlib":
            raise
        print("--plot needs matplotlib: pip install 'relevanced[plot]'", file=sys.stderr)
        return 1
    try:
        plot(found, judged, changes, path)
    except (OSError, ValueError) as error:
        print(f"--plot {path}: {error}", file=sys.stderr)
        return 1
    return 0
