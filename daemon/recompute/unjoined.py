"""Why no feedback joined, or hardly any, as far as the events themselves show. Pure."""

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Final

from ..changes import sentences
from ..lane import Held, Lane, LaterPage

EXAMPLES: Final = 2
"""Ids that are shown of each side."""
LATE: Final = ("out_of_window", "late")
NOT_JOINED: Final = ("unjoined", "off_list", "beyond_depth", *LATE)
FEW: Final = 0.1
"""A smaller share of the feedback that has a grade is hardly any."""
LEAST: Final = 20
"""Of less feedback a small share may be chance."""


@dataclass(frozen=True)
class Unjoined:
    """What is known of events of which no feedback joined, or hardly any."""

    joined: int
    outcomes: Mapping[str, int]
    """Outcome of feedback → how much, without what still waits."""
    waiting: int
    """Feedback for an impression that was not read; with last touch also for an item that no list
    of its visitor showed."""
    unknown_visitors: int
    """Feedback that last touch should join, of visitors without an impression in their lane."""
    off_list: int
    """Feedback for an item that its impression did not show."""
    kinds: Mapping[str, int]
    """Kinds without a grade → how much feedback is of them; empty where that is not known."""
    rejected: Mapping[str, int]
    """Reason → how many records; whether of feedback is not known."""
    grades: Collection[str]
    """The kinds that have one."""
    by_visitor: bool
    """Whether some feedback joins by last touch."""
    shown_ids: tuple[str, ...]
    """Some ids of impressions."""
    feedback_ids: tuple[str, ...]
    """Some of feedback that waits for its impression."""

    @classmethod
    def of(
        cls, lanes: Sequence[Lane], kinds: Mapping[str, int], before: Mapping[str, int] = {}
    ) -> "Unjoined | None":
        """What is known of one lane or more, since they had counted the outcomes `before`; None
        where enough feedback joined."""
        outcomes, rejected = Counter[str](), Counter[str]()
        for lane in lanes:
            outcomes.update(lane.counts["feedback_outcomes"])
            rejected.update(lane.counts["rejected"])
        outcomes.subtract(before)
        joined = outcomes["joined"]
        every = (one for lane in lanes for one in lane.waiting.by_serial.values())
        waiting = [
            one for one in every if not isinstance(one, Held | LaterPage)
        ]  # which is not due yet
        total = len(waiting) + sum(outcomes[outcome] for outcome in ("joined", *NOT_JOINED))
        if joined and (total < LEAST or joined >= FEW * total):
            return None
        off_list = [one for one in waiting if one.bound_ms is not None]
        unbound = (one.impression_id for one in waiting if one.bound_ms is None)
        ids = dict.fromkeys(unbound)
        unknown_visitors = outcomes["unknown_visitor"]
        return cls(
            joined,
            outcomes,
            waiting=len(waiting) - len(off_list) + outcomes["unjoined"] - unknown_visitors,
            unknown_visitors=unknown_visitors,
            off_list=len(off_list) + outcomes["off_list"],
            kinds=kinds,
            rejected=rejected,
            grades=lanes[0].plan.grades.keys(),
            by_visitor=lanes[0].plan.touch_ms is not None,
            shown_ids=tuple(
                lane.open.ids[at].decode()
                for lane in lanes
                for at in range(min(EXAMPLES, len(lane.open.ids)))
            )[:EXAMPLES],
            feedback_ids=tuple(islice(ids, EXAMPLES)),
        )

    @property
    def is_failure(self) -> bool:
        """Whether no feedback joined although there was some, or records were refused that may be
        it. A recording of impressions alone holds what it was asked to hold."""
        return not self.joined and (self._total > 0 or any(self.rejected.values()))

    @property
    def missed(self) -> int:
        """The feedback of kinds with a grade that did not join."""
        others = (*LATE, "beyond_depth")
        late = sum(self.outcomes[outcome] for outcome in others)
        return self.waiting + self.unknown_visitors + self.off_list + late

    @property
    def _total(self) -> int:
        return self.missed + self.outcomes["ignored_kind"]

    def text(self, *, values: bool = True) -> str:
        """What to look at, in sentences. `values`: whether ids and kinds of the records are
        shown."""
        total = self._total
        if not total and any(self.rejected.values()):
            return (
                f"No feedback was accepted, so every score is 0 or undefined. Are the "
                f"{sum(self.rejected.values()):,} rejected records feedback "
                f"({', '.join(self.rejected)})?"
            )
        if not total:
            return (
                "There is no feedback, so every score is 0 or undefined. Is it in another file, or "
                "in another topic?"
            )
        total += self.joined
        share = f"Only {self.joined:,} of" if self.joined else "None of"
        return " ".join(
            (f"{share} {total:,} pieces of feedback joined an impression.", *self._why(values))
        )

    def _why(self, values: bool) -> Iterator[str]:
        if self.outcomes["ignored_kind"] and values:
            yield from (self._of_kind(kind) for kind in islice(self.kinds, EXAMPLES))
        elif self.outcomes["ignored_kind"] and self.kinds:
            count = "1 kind has" if len(self.kinds) == 1 else f"{len(self.kinds)} kinds have"
            yield f"{count} no grade in attribution.grades, which has {', '.join(self.grades)}."
        if self.off_list:
            yield (
                f"{self.off_list:,} are for items that their impression did not show: is an item "
                "named alike in both?"
            )
        if self.waiting:
            ids = ""
            if self.shown_ids and self.feedback_ids and values:
                shown, asked = _listed(self.shown_ids), _listed(self.feedback_ids)
                ids = f": impression ids look like {shown}, those of feedback like {asked}"
            touch = ", or items that no list of their visitor showed" if self.by_visitor else ""
            yield f"{self.waiting:,} are for impressions that were not read{touch}{ids}."
        if self.unknown_visitors:
            yield (
                f"{self.unknown_visitors:,} are of visitors without an impression: are visitors"
                " named alike in both, and both topics keyed by them?"
            )
        late = sum(self.outcomes[outcome] for outcome in LATE)
        if late:
            yield f"{late:,} came after attribution.window."

    def _of_kind(self, kind: str) -> str:
        meant = [known for known in self.grades if known.casefold() == kind.casefold()]
        shown = sentences.printable(kind)
        if meant:
            return f"{shown} has no grade in attribution.grades: did you mean {meant[0]}?"
        return f"{shown} has no grade in attribution.grades, which has {', '.join(self.grades)}."


def _listed(ids: Iterable[str]) -> str:
    return ", ".join(map(sentences.printable, ids))
