"""The name of a fault holds still while the fault is open. Pure."""

from collections.abc import Collection, Iterable
from dataclasses import replace
from typing import Final

from .ledger import Fall, FaultName, Series
from .timeline import HOUR_MS, MINUTE_MS

LED_MS: Final = 10 * MINUTE_MS
"""The first name was given by a first look: another one has to be better for so long."""
STAYS_MS: Final = HOUR_MS
"""So long where the fault has got another name already."""


def held_name(
    name: FaultName | None,
    best: FaultName,
    falls: Iterable[Fall],
    end_ms: int,
    back: Collection[Series] = (),
) -> FaultName:
    """The name that a fault is told under now: that of the last look, unless nothing of the falls
    has it any more, a part of it is back, or `best` has been better for long enough. `best` has the
    identity of a fault that has no name yet."""
    if name is None:
        return replace(best, since_ms=end_ms)
    again = replace(best, since_ms=end_ms, first=name.first, renamed=True)
    if not _is_of(name, falls, back):
        return again
    if name.is_same(best):
        return name if name.rival is None else replace(name, rival=None)
    if name.rival is None or not name.rival.is_same(best):
        return replace(name, rival=replace(best, since_ms=end_ms))
    has_to_lead_ms = STAYS_MS if name.renamed else LED_MS
    return again if end_ms - name.rival.since_ms >= has_to_lead_ms else name


def _is_of(name: FaultName, falls: Iterable[Fall], back: Collection[Series]) -> bool:
    named = {(name.grouping, segment, name.metric) for segment in name.segments}
    return named.isdisjoint(back) and any(fall.series in named for fall in falls)
