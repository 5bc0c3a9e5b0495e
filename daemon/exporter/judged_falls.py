"""Which judged scores fell, since when: a ledger of its own, which looks at the rows that the
judgements of now graded.

Pure apart from what it keeps from look to look. A new file is a new measure: a fall that is open
when one comes into force is over then, and the next one can only begin by what this file grades.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from ..changes import (
    KEPT_MS,
    LATELY_MS,
    ChangeSettings,
    Fall,
    Graded,
    Scene,
    ScoreTimeline,
    Story,
    superseded,
)
from ..plan import Plan
from ..views import HourHistory, LaneView, Selection, measure_at
from .detector import Basis, ChangeDetector, Detection, look_at
from .judged import JudgedScores, judged_view
from .timelines import Timelines

NOTHING: Final = ScoreTimeline(
    *(np.zeros(0, np.int64),) * 2, *(np.zeros((0, 0)),) * 3, np.zeros(0, np.bool_)
)
"""No bins, of no series."""


@dataclass(frozen=True, eq=False)
class JudgedBasis:
    """What a look goes by, beside the lanes."""

    scores: JudgedScores
    history: HourHistory
    """The judged hours; it must have taken the lanes."""
    design_effect: float


class JudgedFalls:
    """Looks at the judged scores no more often than once per base pane."""

    def __init__(self, plan: Plan, change_settings: ChangeSettings) -> None:
        """`plan` is that of judged rows."""
        self._plan, self._change_settings = plan, change_settings.of_judged
        self.falls: tuple[Fall, ...] = ()
        """As of the last look, those of earlier judgements included."""
        self._detector = ChangeDetector(plan, self._change_settings)
        self._graded: Graded | None = None
        self._found = self._last = Detection()
        self._former: dict[Graded, Timelines] = {}

    def look(self, views: Sequence[LaneView], basis: JudgedBasis) -> Detection:
        """What is said now; nothing while no file grades. Raises Damaged."""
        scores, measure = basis.scores, basis.scores.measure
        if measure is None or scores.until_ms is None or scores.selection is None:
            return Detection()
        graded, until_ms = Graded(measure.name, measure.since_ms), scores.until_ms
        falls = superseded(self.falls, graded)
        self.falls = tuple(
            fall for fall in falls if until_ms - (fall.ended_ms or until_ms) < KEPT_MS
        )
        is_same = graded == self._graded
        if not is_same:
            self._detector, self._graded = (
                ChangeDetector(self._plan, self._change_settings, graded),
                graded,
            )
        found = Detection() if measure.is_mixed else self._looked(basis, scores.selection)
        if found is not self._found or not is_same:
            closed = (*found.closed, *self._of_former(views, basis, scores.selection))
            latest_first = sorted(closed, key=lambda story: -(story.fall.ended_ms or 0.0))
            self._found, self._last = found, replace(found, closed=tuple(latest_first))
        return self._last

    def _looked(self, basis: JudgedBasis, selection: Selection) -> Detection:
        """By what the judgements of now graded."""
        scores, judge = basis.scores, self._detector
        assert scores.until_ms is not None
        others = tuple(fall for fall in self.falls if fall.graded != self._graded)
        judge.falls = tuple(fall for fall in self.falls if fall.graded == self._graded)
        by_usual = Basis(selection, scores.comparisons, basis.design_effect)
        as_of_ms = scores.until_ms + self._plan.timing.settle_ms
        found = judge.look(scores.views, basis.history, by_usual, as_of_ms)
        self.falls = (*others, *judge.falls)
        return found

    def _of_former(
        self, views: Sequence[LaneView], basis: JudgedBasis, selection: Selection
    ) -> Iterator[Story]:
        """The falls of earlier judgements that ended within the last day, by what these graded."""
        since_ms = (basis.scores.until_ms or 0) - LATELY_MS
        ended: dict[Graded, list[Fall]] = {}
        for fall in self.falls:
            if fall.graded and fall.graded != self._graded and (fall.ended_ms or 0) >= since_ms:
                ended.setdefault(fall.graded, []).append(fall)
        self._former = {
            graded: self._former.get(graded) or Timelines(self._plan, graded.since_ms)
            for graded in ended
        }
        for graded, falls in ended.items():
            yield from self._scene(views, basis, selection, graded).ended(falls, since_ms)

    def _scene(
        self, views: Sequence[LaneView], basis: JudgedBasis, selection: Selection, graded: Graded
    ) -> Scene:
        """What earlier judgements graded, as far as it is kept."""
        timelines, bins = self._former[graded], None
        measure = measure_at(basis.scores.files, graded.since_ms)
        if measure and measure.until_ms and measure.name == graded.judgements:
            judged = [judged_view(v, graded.since_ms, self._plan) for v in views if v.judged]
            bins = timelines.of(judged, basis.history, selection, measure.until_ms)
        segments = () if bins is None else timelines.segments
        of = (self._plan, self._change_settings, basis.design_effect)
        look = look_at(NOTHING if bins is None else bins, segments, *of)
        return Scene(replace(look, graded=graded), timelines.counts, self._change_settings)
