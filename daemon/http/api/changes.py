"""What got worse since when, and each segment now and before. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from statistics import NormalDist
from typing import Final, Literal, TypeAlias

import msgspec

from ...events.timestamps import timestamp_text
from ...exporter.pane_reader import Reading
from ...exporter.snapshot import SETTLED
from .change_types import Headline, Noticeable, OpenChange
from .compared import FALSE_CALLS, Change, compared_rows
from .one_voice import in_one_voice, without_shared
from .parameters import BadRequest
from .periods import Stretch
from .stories import headline, noticeable, open_changes
from .usual import Table, usual_rows

Against: TypeAlias = Literal["worst", "hour", "day", "weeks"]
AGAINST: Final[tuple[Against, ...]] = ("worst", "hour", "day", "weeks")


class Changes(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The requested changes, segment by segment. Before the first event the periods are null."""

    as_of: str | None
    window: str
    view: str
    now: Stretch | None
    before: Stretch | None
    """The latest of `periods`."""
    periods: tuple[Stretch, ...]
    """What `now` is compared with: one period, or the same hours of up to three weeks, the latest
    first. The means before are over all of them, each with the same weight."""
    remark: str | None
    """Why there is nothing to compare with, and from when on there is; null where there is."""
    beyond: float
    """How many times its noise a difference must exceed to be called. Grows with the number of
    segments, so that false calls stay rare."""
    changes: tuple[Change, ...]
    against: Against
    """`worst`: where a change is open, a row is what it was before that and has been since.
    `hour`: the window now and an hour before. `day`: the last settled hours and
    the same hours yesterday. `weeks`: the same of up to three weeks. The last hours are the
    shortest of 1, 6 and 24 that are as long as the window, or 24."""
    settled_until: str | None
    """End of what has settled when changes were looked for last."""
    headline: Headline
    noticeable: tuple[Noticeable, ...]
    open: tuple[OpenChange, ...]
    """Of all metrics and segments, judged ones included, the clearest first."""
    closed: tuple[OpenChange, ...]
    """Those that recovered within the last day, or ended with their judgements."""
    standing: tuple[OpenChange, ...]
    """Open ones that have lasted for more than a week."""


def changes(
    reading: Reading,
    window: str,
    view: str,
    wanted: Mapping[str, Sequence[str]],
    against: Against = "worst",
) -> Changes:
    """The changes of the shown segments that pass the filters `wanted` (name → allowed values).
    Raises BadRequest."""
    as_of_ms, judged = reading.snapshot.as_of_ms, reading.judged
    beyond = NormalDist().inv_cdf(1 - FALSE_CALLS / (2 * len(reading.selection.segments)))
    open_now, closed, standing = open_changes(reading)
    if against == "day" or against == "weeks":
        if view != SETTLED:
            rule = f"must be {SETTLED} with against={against}, which compares whole hours"
            raise BadRequest(400, f"view={view}: {rule}")
        table = usual_rows(reading, window, wanted, against, beyond)
    else:
        table = _recent_rows(reading, window, view, wanted, beyond)
    voiced = in_one_voice if against == "worst" else without_shared
    table = replace(table, rows=voiced(table.rows, judged))
    return Changes(
        as_of=None if as_of_ms is None else timestamp_text(as_of_ms),
        window=window,
        view=view,
        now=table.now,
        before=table.periods[0] if table.periods else None,
        periods=table.periods,
        remark=table.remark,
        beyond=beyond,
        changes=table.rows,
        against=against,
        settled_until=None if judged.end_ms is None else timestamp_text(judged.end_ms),
        headline=headline(reading),
        noticeable=noticeable(reading),
        open=open_now,
        closed=closed,
        standing=standing,
    )


def _recent_rows(
    reading: Reading, window: str, view: str, wanted: Mapping[str, Sequence[str]], beyond: float
) -> Table:
    now, before, rows = compared_rows(reading, window, view, wanted, beyond)
    return Table(now, () if before is None else (before,), rows, None)
