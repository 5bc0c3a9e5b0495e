"""Which markers stand beside a change, and which plan it follows. Pure."""

from collections.abc import Iterable, Sequence

from .ledger import FallOnset
from .markers import REACH_MS, Marker, ordered
from .story import Story


def beside(story: Story, markers: Iterable[Marker]) -> tuple[Marker, ...]:
    """The markers whose scope contains the change and that lie at its onset, by time: from 10 min
    before the earliest instant to the latest. None where it is unknown when the change began."""
    return ordered(
        marker
        for marker in markers
        if _is_at(marker, story.fall.onset) and marker.scope.holds(*_named(story))
    )


def plan_of(story: Story, markers: Iterable[Marker], now_ms: float) -> Marker | None:
    """The latest plan that a change follows; None where it follows none.

    Every score that fell with the change must be planned: a plan for RR@10 does not excuse a fall
    of Success@10.
    """
    plans = [
        marker
        for marker in beside(story, markers)
        if marker.kind == "planned" and (marker.until_ms is None or now_ms <= marker.until_ms)
        if all(marker.scope.holds(*moved) for moved in _also(story))
    ]
    return plans[-1] if plans else None


def nearest(story: Story, markers: Iterable[Marker]) -> Marker | None:
    """Of the markers beside a change the one that is nearest to its likeliest onset."""
    likely = story.fall.onset.likely
    return min(beside(story, markers), key=lambda m: abs(m.at_ms - likely), default=None)


def _is_at(marker: Marker, onset: FallOnset) -> bool:
    if onset.earliest is None:
        return False
    ends_ms = marker.at_ms if marker.until_ms is None else marker.until_ms
    last_ms = ends_ms if marker.kind == "planned" else marker.at_ms
    return onset.earliest - REACH_MS <= last_ms and marker.at_ms <= onset.latest


def _named(story: Story) -> tuple[str, str, Sequence[str]]:
    grouping, _, metric = story.fall.series
    return metric, grouping, story.segments


def _also(story: Story) -> list[tuple[str, str, Sequence[str]]]:
    return [(each.series[2], each.series[0], each.series[1:2]) for each in story.also]
