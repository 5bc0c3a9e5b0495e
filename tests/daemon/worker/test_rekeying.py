"""What the stage sends of what is no event."""

from collections.abc import Sequence

from relevanced.daemon.events import (
    COUNTED,
    Decoded,
    Impression,
    Mark,
    Rejected,
    Skipped,
    read_sent,
)
from relevanced.daemon.worker import SourceRun, SourceState, Targets, state_in

PANE_MS = 10_000
TARGETS = Targets(2, len, {"clicks": 4}, PANE_MS)
LEFT_OUT = Skipped("not_mapped")


def marks(run: SourceRun, offset: int, decoded: Sequence[Decoded]) -> list[Mark]:
    sent = [read_sent(message.value) for message in run.read(offset, None, decoded)]
    return [one for one in sent if isinstance(one, Mark)]


def test_what_is_skipped_is_told_at_places_that_follow_from_the_log() -> None:
    whole = SourceRun("clicks", 3, 990, SourceState(), TARGETS)
    told = [mark for offset in range(990, 2_001) for mark in marks(whole, offset, [LEFT_OUT])]
    assert [(mark.of.place, mark.skipped) for mark in told] == [
        ((1_000, COUNTED), {"not_mapped": 10}),
        ((2_000, COUNTED), {"not_mapped": 1_000}),
    ]
    assert whole.point[0] == 2_000
    again = SourceRun("clicks", 3, 1_000, state_in(""), TARGETS)
    (mark,) = [mark for n in range(1_000, 2_001) for mark in marks(again, n, [LEFT_OUT])]
    assert (mark.of.place, mark.skipped) == (told[1].of.place, told[1].skipped)


def test_what_is_refused_is_told_at_once_and_once() -> None:
    run = SourceRun("clicks", 3, 0, SourceState(), TARGETS)
    bad = Rejected("not_json")
    (mark,) = marks(run, 0, [bad, bad, LEFT_OUT])
    assert (mark.rejected, mark.skipped) == ({"not_json": 2}, {"not_mapped": 1})
    shown = Impression("q1", 3 * PANE_MS, ("a",))
    both = marks(run, 1, [bad, shown])
    assert [(mark.of.met_ms, mark.rejected) for mark in both] == [
        (3 * PANE_MS, {}),
        (3 * PANE_MS, {"not_json": 1}),
    ], "the lane of the source's partition counts it"
    assert run.point[0] == 2 and state_in(run.point[1]).w == 3 * PANE_MS
