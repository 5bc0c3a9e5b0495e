"""What a replay is asked for, and how scores over time are printed and drawn."""

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from rich.console import Console

from ..changes import Story, incidents
from ..config import Config
from ..experiments import Stretch
from ..views import Selection
from . import over_time, tables
from .buckets import BucketsOverTime, selection_of
from .driver import judged_rows
from .falls import Fallen, fallen, judged_fallen
from .over_time import OfFile
from .replay_pipeline import Replayed
from .tables import JUDGED_FIELDS, NOTHING_JUDGED

CHANGES_EVERY_MS: Final = 60_000
"""The buckets that changes are looked for in, unless others are asked for."""
PLOT_EVERY_MS: Final = 600_000
LATEST_MS: Final = 10**14


@dataclass(frozen=True)
class Asked:
    """What is printed in place of the scores."""

    experiment: str | None = None
    every_ms: int | None = None
    """The scores in each bucket of so much event time."""
    changes: bool = False
    """Which scores fell, by these buckets."""
    from_ms: int = 0
    to_ms: int = LATEST_MS
    excluded: tuple[Stretch, ...] = ()
    """Stretches of time that are left out of the experiment."""
    by_day: bool = False
    """The effect of the experiment on each day, and up to its end."""
    plot: str | None = None
    """The file that the scores in these buckets are drawn to."""
    serve_at: int | None = None
    """Serve the page at this port of the loopback, 0 for any that is free."""
    queries: str | None = None
    """The order in which queries are listed."""

    @property
    def needs_changes(self) -> bool:
        """Whether it is asked which scores fell."""
        return self.changes or self.plot is not None

    @property
    def bucket_ms(self) -> int | None:
        """The length of buckets; None where none are needed."""
        if self.every_ms is not None:
            return self.every_ms
        if self.changes:
            return CHANGES_EVERY_MS
        return None if self.plot is None else PLOT_EVERY_MS


SCORES: Final = Asked()


WIDEST_TABLE: Final = 10_000


def print_over_time(replayed: Replayed, config: Config, asked: Asked, output: str) -> int:
    """Print the scores in each bucket, or which scores fell, and draw them; returns the exit
    code."""
    lane, span = replayed.lane, range(asked.from_ms, asked.to_ms)
    assert replayed.buckets is not None
    shown = selection_of(lane)
    by_judgements = _judged_fallen(replayed, shown, config, asked)
    judged_ms = None if replayed.judged is None else judged_rows(lane).final_before
    replayed.driver.finish()
    found, judged = BucketsOverTime.of(replayed.buckets, lane, shown, span, lane.plan), None
    if replayed.judged is not None:
        judged = over_time.judged_over_time(replayed.judged, lane, found, span)
    fell = fallen(found.settled, config.resolved_changes) if asked.needs_changes else Fallen()
    if asked.changes:
        both, judged_both = ((*each.open_now, *each.over) for each in (fell, by_judgements))
        found_incidents = incidents(both, judged_both, lane.plan.timing.attribution_ms)
        for line in over_time.changes_text(
            found.settled, found_incidents, judged_ms, by_judgements.cannot_tell, fell.gaps
        ):
            print(line)
    elif asked.every_ms is not None:
        _print(found, judged, output)
    if asked.plot is None:
        return 0
    return _draw(found, judged or (), (*fell.open_now, *fell.over), asked.plot)


def _judged_fallen(replayed: Replayed, shown: Selection, config: Config, asked: Asked) -> Fallen:
    """The falls of judged scores, where it is asked which fell. Before the lane is finished."""
    if replayed.judged is None or replayed.buckets is None or not asked.changes:
        return Fallen()
    span, length_ms = range(asked.from_ms, asked.to_ms), replayed.buckets.length_ms
    change_settings = config.resolved_changes
    return judged_fallen(replayed.judged, replayed.lane, shown, span, length_ms, change_settings)


def _print(found: BucketsOverTime, judged: Sequence[OfFile] | None, output: str) -> None:
    """`judged`: None where nothing is graded."""
    rows = [*over_time.scores(found), *over_time.all_scores(judged or ())]
    if output == "csv":
        header = over_time.FIELDS if judged is None else (*over_time.FIELDS, *JUDGED_FIELDS)
        print(tables.as_csv(header, rows), end="")
    elif output == "json":
        print(tables.as_json_lines(rows), end="")
    else:
        console = Console(width=WIDEST_TABLE)
        console.print(over_time.as_table(found, over_time.scores(found)))
        for table in over_time.as_tables(judged or ()):
            console.print(table)
        if judged == ():
            print(NOTHING_JUDGED)


def _draw(
    found: BucketsOverTime, judged: Sequence[OfFile], changes: Sequence[Story], path: str
) -> int:
    from .plot import plot  # matplotlib is optional, and slow to load

    try:
        plot(found, judged, changes, path)
    except (OSError, ValueError) as error:
        print(f"--plot {path}: {error}", file=sys.stderr)
        return 1
    return 0
