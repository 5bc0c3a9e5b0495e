"""Times are those of a list, however they are stored."""

import numpy as np
import pytest

from relevanced.daemon.lane import TIME_ROUND, Times, indexes

START_MS = 1_795_176_000_000


@pytest.mark.parametrize("apart", [1, 40, 300])
@pytest.mark.parametrize("a_round", [TIME_ROUND, 1 << 9])
def test_times_are_those_of_a_list(
    monkeypatch: pytest.MonkeyPatch, rng: np.random.Generator, apart: int, a_round: int
) -> None:
    """With one origin, with origins that move, and in eight bytes each."""
    monkeypatch.setattr(indexes, "TIME_ROUND", a_round)
    column, twin = Times(), list[int]()
    for turn in range(300):
        about = START_MS + 20 * turn
        more = about + rng.integers(-apart, apart + 1, int(rng.integers(0, 6)))
        column.extend(more)
        column.append(about)
        twin += [*more.tolist(), about]
        dropped = min(len(twin), int(rng.integers(0, 10 if len(twin) > 10 else 3)))
        column.drop_front(dropped)
        del twin[:dropped]
        assert len(column) == len(twin)
        assert (
            column.at(slice(None)).tolist() == [column[index] for index in range(len(twin))] == twin
        )
        indices = rng.integers(0, len(twin), 4) if twin else np.zeros(0, np.int64)
        assert column.at(indices).tolist() == [twin[index] for index in indices.tolist()]


def test_skipped_entries_leave_the_others_at_their_index() -> None:
    column = Times()
    column.skip(2)
    column.append(START_MS)
    column.skip(1)
    column.extend(np.array([START_MS + TIME_ROUND, 0]))
    assert (len(column), column[2]) == (6, START_MS)
    assert column.at(slice(4, 6)).tolist() == [START_MS + TIME_ROUND, 0]


def test_times_within_days_take_four_bytes() -> None:
    column, days_ms = Times(), 86_400_000
    for day in range(100):
        column.extend(START_MS + np.array([day, day + 1]) * days_ms)
        column.drop_front(max(len(column) - 60, 0))
    assert column.at(slice(None))[-1] == START_MS + 100 * days_ms
    assert column._offsets._dtype.itemsize == 4
