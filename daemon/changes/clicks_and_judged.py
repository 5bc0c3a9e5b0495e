"""One change for one fault, as it is shown, whether feedback shows it, judgements do, or both.
Pure.

Judged scores wait for no feedback, so the same fault is seen by them first. A judged change and one
by feedback are of one fault where they began at most an hour apart and name a segment in common, or
one of them names the whole. Each of them is of one fault only: the nearest.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from .settings import WHOLE
from .story import Story
from .timeline import HOUR_MS

APART_MS: Final = HOUR_MS


@dataclass(frozen=True)
class Incident:
    """A change, with that by the other measure beside it."""

    story: Story
    """That by feedback, unless that is over while the judged one is open."""
    beside: Story | None
    identity: str
    """That of the change that could be known first: it stays when the other one joins it."""

    @property
    def ids(self) -> frozenset[str]:
        """Under which it is known, or was before the other change joined it."""
        both = (self.story, self.beside)
        return frozenset((self.identity, *(each.identity for each in both if each is not None)))

    @property
    def is_by_judgements_alone(self) -> bool:
        """Whether clicks show no such fall."""
        return self.beside is None and self.story.fall.graded is not None

    @property
    def is_open(self) -> bool:
        """Whether it is open by either measure."""
        return self.story.fall.ended_ms is None


def incidents(
    by_feedback: Sequence[Story], judged: Sequence[Story], wait_ms: int
) -> tuple[Incident, ...]:
    """Each change once, those by feedback first. Judged scores are final `wait_ms` earlier."""
    beside: dict[int, int] = {}
    pairs = sorted(
        (_distance(story, other), at, of)
        for at, story in enumerate(by_feedback)
        for of, other in enumerate(judged)
        if _are_one(story, other)
    )
    for _, at, of in pairs:
        if at not in beside and of not in beside.values():
            beside[at] = of
    together = [
        _incident(story, judged[beside[at]] if at in beside else None, wait_ms)
        for at, story in enumerate(by_feedback)
    ]
    left = [story for of, story in enumerate(judged) if of not in beside.values()]
    return (*together, *(Incident(story, None, story.identity) for story in left))


def _are_one(story: Story, judged: Story) -> bool:
    groupings = {story.fall.series[0], judged.fall.series[0]}
    is_same = len(groupings) == 1 and not set(story.segments).isdisjoint(judged.segments)
    return (is_same or WHOLE[0] in groupings) and _distance(story, judged)[1] <= APART_MS


def _distance(story: Story, judged: Story) -> tuple[bool, float]:
    """(whether they name other segments, time between their onsets)."""
    apart = abs(story.fall.onset.likely - judged.fall.onset.likely)
    is_other = (story.fall.series[0], story.segments) != (judged.fall.series[0], judged.segments)
    return is_other, apart


def _incident(story: Story, judged: Story | None, wait_ms: int) -> Incident:
    if judged is None:
        return Incident(story, None, story.identity)
    first = judged if judged.called_ms <= story.called_ms + wait_ms else story
    if judged.fall.ended_ms is None and story.fall.ended_ms is not None:
        return Incident(judged, story, first.identity)
    return Incident(story, judged, first.identity)
