"""Times are those of a list, however they are held."""

import numpy as np
import pytest

from relevanced.daemon.lane.columns import times
from relevanced.daemon.lane.columns.times import ROUND, Times

START_MS = 1_795_176_000_000


@pytest.mark.parametrize("apart", [1, 40, 300])
@pytest.mark.parametrize("a_round", [ROUND, 1 << 9])
def test_times_are_those_of_a_list(
    monkeypatch: pytest.MonkeyPatch, rng: np.random.Generator, apart: int, a_round: int
) -> None:
    """In one round, in rounds that begin anew, and in wide numbers."""
    monkeypatch.setattr(times, "ROUND", a_round)
    held, twin = Times(), list[int]()
    for turn in range(300):
        about = START_MS + 20 * turn
        more = about + rng.integers(-apart, apart + 1, int(rng.integers(0, 6)))
        held.extend(more)
        held.append(about)
        twin += [*more.tolist(), about]
        dropped = min(len(twin), int(rng.integers(0, 10 if len(twin) > 10 else 3)))
        held.drop_front(dropped)
        del twin[:dropped]
        assert len(held) == len(twin)
        assert held.at(slice(None)).tolist() == [held[place] for place in range(len(twin))] == twin
        places = rng.integers(0, len(twin), 4) if twin else np.zeros(0, np.int64)
        assert held.at(places).tolist() == [twin[place] for place in places.tolist()]


def test_places_that_were_skipped_leave_the_others_where_they_are() -> None:
    held = Times()
    held.skip(2)
    held.append(START_MS)
    held.skip(1)
    held.extend(np.array([START_MS + ROUND, 0]))
    assert (len(held), held[2]) == (6, START_MS)
    assert held.at(slice(4, 6)).tolist() == [START_MS + ROUND, 0]


def test_times_within_days_take_four_bytes() -> None:
    held, days_ms = Times(), 86_400_000
    for day in range(100):
        held.extend(START_MS + np.array([day, day + 1]) * days_ms)
        held.drop_front(max(len(held) - 60, 0))
    assert held.at(slice(None))[-1] == START_MS + 100 * days_ms
    assert held._told._dtype.itemsize == 4
