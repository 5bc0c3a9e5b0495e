"""One lane made again from its log, and compared with what is stored of it. Pure.

Hours are compared as soon as they cannot change.
"""

from collections.abc import Mapping

from ...events.types import Decoder
from ...lane.lane import Lane, new_lane
from ...plan import Plan
from .comparing import Comparison
from .judged_rows import NO_DIRECTORY, Grading
from .outcome import Outcome, outcome_of
from .provable import Reach
from .replaying import Replay
from .stored import Stored


class Proof:
    """Compares a stored lane with one that `replay` makes again. The order is `replay.apply` for
    all records up to the stored offsets, `outcome`."""

    def __init__(
        self,
        stored: Stored,
        plan: Plan,
        decode: Decoder,
        begin: Mapping[str, int],
        lost_beginning: bool,
        max_future_ms: int,
        grading: Grading = Grading(obstacle=NO_DIRECTORY),
    ) -> None:
        """`begin`: the offset of each topic from which its records come; `lost_beginning` where
        that is not where the lane began. `max_future_ms`: how far an event that counts may be ahead
        of its record. `grading`: by which files its lists are graded again."""
        topics = list(stored.head.offsets)
        lane = new_lane(stored.lane, plan, dict(begin), topics)
        _count_experiments_since(lane, stored)
        self.comparison = Comparison(stored, lane, not lost_beginning)
        self.comparison.judged.begin(lane, grading, is_whole=not lost_beginning)
        self._reach = Reach(plan.timing, max_future_ms, topics) if lost_beginning else None
        self.replay = Replay(lane, decode, self._reach, self.comparison)

    def outcome(self) -> Outcome:
        """Compare all that is left; returns what was found. Raises Damaged."""
        first_ms, records = self.replay.first_ms, self.replay.records
        self.comparison.finish(first_ms)
        if self._reach is None:
            return outcome_of(self.comparison, records, None, "")
        return outcome_of(self.comparison, records, first_ms, self._reach.missing)


def _count_experiments_since(lane: Lane, stored: Stored) -> None:
    """Let each experiment count from the pane on from which its stored tallies do, where it is
    configured as it was then."""
    tracking = lane.plan.tracking
    if tracking is None:
        return
    digests = tracking.digests()
    for entry in stored.head.state.experiments:
        if digests.get(entry.name) == entry.digest:
            lane.experiments.since_ms[entry.name] = entry.since_ms
