"""Ends are those of a list of lengths, however they are held."""

import numpy as np
import pytest

from relevanced.daemon.lane.columns import ends
from relevanced.daemon.lane.columns.ends import ROUND, Ends


def spans_of(lengths: list[int]) -> list[list[int]]:
    after = np.cumsum(lengths, dtype=np.int64).tolist()
    return [[end - size, end] for end, size in zip(after, lengths, strict=True)]


@pytest.mark.parametrize("narrow_bytes", [ROUND, 1 << 9])
@pytest.mark.parametrize("longest", [0, 1, 20, ROUND // 50])
def test_ends_are_those_of_a_list_of_lengths(
    monkeypatch: pytest.MonkeyPatch, rng: np.random.Generator, longest: int, narrow_bytes: int
) -> None:
    """By one length, by narrow numbers that begin anew, and by wide ones."""
    monkeypatch.setattr(ends, "NARROW_BYTES", narrow_bytes)
    held, twin = Ends(), list[int]()
    for _ in range(300):
        more = rng.integers(0, longest + 1, int(rng.integers(0, 6)))
        held.extend(more)
        held.append(longest)
        twin += [*more.tolist(), longest]
        dropped = min(len(twin), int(rng.integers(0, 10 if len(twin) > 10 else 3)))
        held.drop_front(dropped)
        del twin[:dropped]
        assert len(held) == len(twin)
        assert np.array(held.spans(np.arange(len(twin)))).T.tolist() == spans_of(twin)
        assert [held.before(number) for number in range(len(twin) + 1)] == [
            sum(twin[:number]) for number in range(len(twin) + 1)
        ]


@pytest.mark.parametrize("narrow_bytes", [ROUND, 7])
def test_lengths_that_differ_from_the_first_ones_are_told(
    monkeypatch: pytest.MonkeyPatch, narrow_bytes: int
) -> None:
    monkeypatch.setattr(ends, "NARROW_BYTES", narrow_bytes)
    held = Ends()
    held.extend(np.array([3, 3]))
    held.extend(np.array([3, 0, 5]))
    held.append(4)
    assert [held.before(number) for number in range(7)] == [0, 3, 6, 9, 9, 14, 18]
