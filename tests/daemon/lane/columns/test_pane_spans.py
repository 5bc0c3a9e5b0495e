"""The spans of panes find the slots that a list per pane would contain."""

import numpy as np
import pytest

from relevanced.daemon.lane import PaneSpans

PANE_MS = 10


@pytest.mark.parametrize("lateness", [0, 3, 400])
def test_spans_find_the_slots_of_a_list_per_pane(rng: np.random.Generator, lateness: int) -> None:
    count, base = 2000, 70
    times_ms = np.arange(count) - rng.integers(0, lateness + 1, count)
    panes = times_ms // PANE_MS * PANE_MS
    spans, twin = PaneSpans(), dict[int, list[int]]()
    for slot, pane in enumerate(panes.tolist(), base):
        spans.note(np.array([pane]), np.array([slot]))
        twin.setdefault(pane, []).append(slot)
    is_open = np.ones(count, np.bool_)
    while twin:
        assert spans.impressions == sum(map(len, twin.values()))
        assert spans.first_slot == min(slots[0] for slots in twin.values())
        for pane, expected in twin.items():
            found = spans.slots_of(pane, base, times_ms.__getitem__, is_open)
            assert found.tolist() == expected
        before = min(twin) + int(rng.integers(1, 20 * PANE_MS))
        slots = spans.slots_before(before, base, times_ms.__getitem__, is_open)
        closing = [slot for pane in twin if pane < before for slot in twin[pane]]
        assert slots.tolist() == sorted(closing)
        twin = {pane: of_pane for pane, of_pane in twin.items() if pane >= before}
        is_open[slots - base] = False
        spans.forget_before(before)
    assert (spans.impressions, spans.first_slot, list(spans)) == (0, None, [])
