"""Which changes are open, under which name, and how urgent each is: what alert rules compare with
1. Pure.

A change pages where the whole fell by a metric that falls when search loses its relevant items, or
by any judged one, or by any far enough. Else it is a ticket. Each fault is told once, by the
segments that carry it, under a name that stays.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from .ledger import STANDING_MS, FallOnset, Series
from .settings import WHOLE, ChangeSettings, ScoreFloor, Urgency, is_leading
from .story import Moved, Story
from .timeline import HOUR_MS

NAMED_AFTER_MS: Final = HOUR_MS
"""A ticket may get a better name so long: segments are called one after the other."""
AGAINST: Final = ("weeks", "day", "hour")
"""What a score is compared with, the surest first."""


@dataclass(frozen=True)
class ToldAs:
    """As what an open change was told, by which the next look names it."""

    series: Series
    urgency: Urgency
    told_ms: int
    """End of what had settled when it was told under this name first."""


@dataclass(frozen=True)
class ToldChange:
    """One change of one segment, as it is told."""

    series: Series
    urgency: Urgency
    against: str
    moved: Moved
    """The score of the series before and now."""
    onset: FallOnset
    story: Story
    told_ms: int
    """End of what had settled when it was told under this name first."""

    @property
    def loss_ratio(self) -> float | None:
        """What is lost, as a share of what was before."""
        ratio = self.moved.change_ratio
        return None if ratio is None else abs(ratio)

    @property
    def z(self) -> float | None:
        """The same in standard errors, negative."""
        before, now, error = self.moved.before.mean, self.moved.now.mean, self.moved.error
        return None if before is None or now is None or not error else -abs(now - before) / error

    @property
    def told_as(self) -> ToldAs:
        """What the next look goes by."""
        return ToldAs(self.series, self.urgency, self.told_ms)

    @property
    def pattern(self) -> str:
        """The name of what it looks like; empty where that is too small to say."""
        return "" if self.story.pattern is None else self.story.pattern.name


def told_changes(
    stories: Iterable[Story],
    change_settings: ChangeSettings,
    end_ms: int,
    before: Sequence[ToldAs] = (),
) -> tuple[ToldChange, ...]:
    """The open changes, a segment once each. `before` is as what they were told at the last look,
    maybe by another process: their names stay while they hold."""
    told: dict[tuple[str, str], ToldChange] = {}
    for story in stories:
        for change in _told(story, change_settings, end_ms, before):
            told.setdefault(change.series[:2], change)
    return tuple(told.values())


def is_below_floor(
    floor: ScoreFloor,
    score: float,
    scored: float,
    change_settings: ChangeSettings,
    told: Mapping[tuple[str, str], Urgency],
) -> bool:
    """Whether enough searches score less than a floor allows, and no change tells it.

    `told` is segment → urgency of the change that tells of it. One that pages, of whatever segment,
    tells of all searches; of a segment its own tells. NaN is no score.
    """
    segment = floor.grouping, floor.segment
    is_told = "page" in told.values() if segment == WHOLE else segment in told
    return score < floor.floor and scored >= change_settings.smallest_sample and not is_told


def _told(
    story: Story, change_settings: ChangeSettings, end_ms: int, before: Sequence[ToldAs]
) -> Iterator[ToldChange]:
    moved = _moved(story)
    shown = story.fall.series
    known = {change.series: change for change in before if change.series in moved}
    fallen = [change for change in known.values() if change.series in story.fell]
    of_segment = [change for change in known.values() if change.series[:2] == shown[:2]]
    paged = any(change.urgency == "page" for change in (*fallen, *of_segment))
    urgency = urgency_of(story, change_settings, end_ms, paged)
    kept = [change for change in fallen if _keeps(change, urgency, end_ms)]
    named = next((change.series for change in (*kept, *of_segment)), shown)
    yield _change(story, moved[named], urgency, end_ms, known.get(named))
    for segment in story.segments:
        other = (shown[0], segment, named[2])
        if named[0] == shown[0] and other != named and other in moved:
            less: Urgency = "none" if urgency == "none" else "ticket"
            yield _change(story, moved[other], less, end_ms, known.get(other))


def _keeps(change: ToldAs, urgency: Urgency, end_ms: int) -> bool:
    """Whether a change that was told as this is named as before."""
    is_settled = urgency == "page" or end_ms - change.told_ms >= NAMED_AFTER_MS
    return change.urgency == urgency and is_settled


def _change(
    story: Story, moved: Moved, urgency: Urgency, end_ms: int, before: ToldAs | None
) -> ToldChange:
    against = next((lane for lane in AGAINST if lane in story.lanes), AGAINST[-1])
    told_ms = end_ms if before is None else before.told_ms
    return ToldChange(moved.series, urgency, against, moved, story.fall.onset, story, told_ms)


def urgency_of(
    story: Story, change_settings: ChangeSettings, end_ms: int, paged: bool = False
) -> Urgency:
    """How urgent a change is, or was when this was the end of what had settled.

    What `paged` at the look before pages for as long as all searches are low: a loss about
    `far_below_ratio` would end and begin its page anew by the hour.
    """
    if story.z is None:
        return "none"
    if end_ms - story.fall.onset.likely > STANDING_MS:
        return "ticket"
    of_whole, moved = [series for series in story.fell if series[:2] == WHOLE], _moved(story)
    is_judged = story.fall.graded is not None
    pages = any(
        paged
        or is_judged
        or is_leading(series[2])
        or (series in moved and _lost(moved[series]) > change_settings.far_below_ratio)
        for series in of_whole
    )
    return "page" if pages else "ticket"


def _moved(story: Story) -> dict[Series, Moved]:
    return {each.series: each for each in (*story.shares, *story.also, story.own)}


def _lost(moved: Moved) -> float:
    return abs(moved.change_ratio or 0.0)
