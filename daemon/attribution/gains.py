"""What feedback does to its impression: the gain of a place, and the delay of the first reaction.

Pure. Both are the same whatever the order in which feedback comes, and however often.
"""

from ..lane.lane import Lane
from ..panes import pane_start


def set_gain(
    lane: Lane, slot: int, place: int, time_ms: int, kind: str | None, grade: float | None
) -> None:
    """The gain rule: the latest explicit grade (of equal times the higher), else the highest
    implicit one."""
    before = lane.open.states[lane.open.index_of(slot)]
    held = lane.open.grades.get(slot, {}).get(place)
    if grade is not None:
        if held is not None and held >= (time_ms, grade):
            return
        lane.open.grades.setdefault(slot, {})[place] = (time_ms, grade)
        gain = grade
    else:
        assert kind is not None
        gain = lane.plan.grades[kind]
        known = lane.states.gain_at(before, place)
        if held is not None or (known is not None and known >= gain):
            return
    change_state(lane, slot, lane.states.with_gain(before, place, gain))


def change_state(lane: Lane, slot: int, after: int) -> None:
    """Bring an impression into another gain state, and note what that changes of its rows."""
    column = lane.open.index_of(slot)
    before = lane.open.states[column]
    pane = pane_start(lane.open.times_ms[column], lane.plan.timing.base_ms)
    lane.open.states[column] = after
    lane.changes.slots.append(slot)
    lane.changes.add(pane, lane.open.combinations[column], before, after)


def note_delay(lane: Lane, slot: int, time_ms: int) -> None:
    """The first feedback counts, whichever comes first here; one before its impression, as 0."""
    column = lane.open.index_of(slot)
    shown_ms = lane.open.times_ms[column]
    delay_ms = max(time_ms - shown_ms, 0)
    known = lane.open.delays_ms.get(slot)
    if known is not None and known <= delay_ms:
        return
    lane.open.delays_ms[slot] = delay_ms
    lane.changes.slots.append(slot)
    pane = pane_start(shown_ms, lane.plan.timing.base_ms)
    lane.changes.delays.append((pane, lane.open.combinations[column], known, delay_ms))
