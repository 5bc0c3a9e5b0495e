"""What events change of an open impression: its gains, the delay of its first feedback, its list.
Pure."""

from ..events import Impression
from ..lane import Lane, LaterPage
from ..panes import pane_start

# What feedback does to its impression: the gain of a rank, and the delay of the first feedback.
# Both are the same whatever the order in which feedback comes, and however often.


def set_gain(
    lane: Lane, slot: int, rank0: int, time_ms: int, kind: str | None, grade: float | None
) -> None:
    """Set the gain of a rank (from 0): the latest explicit grade (of equal times the higher), else
    the highest implicit one."""
    before = lane.open.states[lane.open.index_of(slot)]
    explicit = lane.open.grades.get(slot, {}).get(rank0)
    if grade is not None:
        if explicit is not None and explicit >= (time_ms, grade):
            return
        lane.open.grades.setdefault(slot, {})[rank0] = (time_ms, grade)
        gain = grade
    else:
        assert kind is not None
        gain = lane.plan.grades[kind]
        present = lane.states.gain_at(before, rank0)
        if explicit is not None or (present is not None and present >= gain):
            return
    change_state(lane, slot, lane.states.with_gain(before, rank0, gain))


def change_state(lane: Lane, slot: int, after: int) -> None:
    """Give an impression another gain state, and note what that changes in its rows."""
    index = lane.open.index_of(slot)
    before = lane.open.states[index]
    pane = pane_start(lane.open.times_ms[index], lane.plan.timing.base_ms)
    lane.open.states[index] = after
    lane.changes.slots.append(slot)
    lane.changes.add(pane, lane.open.combinations[index], before, after)


def note_delay(lane: Lane, slot: int, time_ms: int) -> None:
    """Keep the shortest delay between the impression and its feedback, in whatever order that
    arrives; feedback from before its impression has a delay of 0."""
    if slot < lane.timed_from:
        return
    index = lane.open.index_of(slot)
    shown_ms = lane.open.times_ms[index]
    delay_ms = max(time_ms - shown_ms, 0)
    before_ms = lane.open.delays_ms.get(slot)
    if before_ms is not None and before_ms <= delay_ms:
        return
    lane.open.delays_ms[slot] = delay_ms
    lane.changes.slots.append(slot)
    pane = pane_start(shown_ms, lane.plan.timing.base_ms)
    lane.changes.delays.append((pane, lane.open.combinations[index], before_ms, delay_ms))


# How a later page of results, or one more item, extends the list of its impression.


def graded_ms(lane: Lane, slot: int, watermark_ms: int) -> int:
    """The watermark by which a list counts in judged rows as this record leaves it. Of records that
    may come from several logs, none is in time after one that was late: so it makes no difference
    which came first."""
    if not lane.is_one:
        return watermark_ms
    met_ms = max(watermark_ms, lane.open.late.get(slot, watermark_ms))
    timing, shown_ms = lane.plan.timing, lane.open.times_ms[lane.open.index_of(slot)]
    if met_ms >= timing.judged_until(shown_ms):
        lane.open.late[slot] = met_ms
    return met_ms


def grade_new_items(lane: Lane, slot: int, event: Impression | LaterPage, first_rank0: int) -> None:
    """Count judgements that came with the list as explicit grades of the record's time."""
    if not event.grades:
        return
    ranks0: dict[str | None, int] = {}
    items = lane.open.list_of(slot)[first_rank0:]
    for rank0, added in enumerate(items[:1] if event.by_item else items, first_rank0):
        ranks0.setdefault(added, rank0)
    # A look-up, not a search in the list: a record of a megabyte has 100,000 grades.
    for item, grade in event.grades.items():
        if item in ranks0:
            rank0 = ranks0[item]
            set_gain(lane, slot, rank0, event.time_ms, None, grade)
