"""Ends are those of a list of lengths, however they are stored."""

import numpy as np
import pytest

from relevanced.daemon.lane import ROUND, Ends, arrays


def spans_of(lengths: list[int]) -> list[list[int]]:
    after = np.cumsum(lengths, dtype=np.int64).tolist()
    return [[end - size, end] for end, size in zip(after, lengths, strict=True)]


@pytest.mark.parametrize("narrow_bytes", [ROUND, 1 << 9])
@pytest.mark.parametrize("longest", [0, 1, 20, ROUND // 50])
def test_ends_are_those_of_a_list_of_lengths(
    monkeypatch: pytest.MonkeyPatch, rng: np.random.Generator, longest: int, narrow_bytes: int
) -> None:
    """With one length, with narrow ends that wrap, and with wide ones."""
    monkeypatch.setattr(arrays, "NARROW_BYTES", narrow_bytes)
    column, twin = Ends(), list[int]()
    for _ in range(300):
        more = rng.integers(0, longest + 1, int(rng.integers(0, 6)))
        column.extend(more)
        column.append(longest)
        twin += [*more.tolist(), longest]
        dropped = min(len(twin), int(rng.integers(0, 10 if len(twin) > 10 else 3)))
        column.drop_front(dropped)
        del twin[:dropped]
        assert len(column) == len(twin)
        assert np.array(column.spans(np.arange(len(twin)))).T.tolist() == spans_of(twin)
        assert [column.before(index) for index in range(len(twin) + 1)] == [
            sum(twin[:index]) for index in range(len(twin) + 1)
        ]


@pytest.mark.parametrize("narrow_bytes", [ROUND, 7])
def test_lengths_may_differ_from_the_first_ones(
    monkeypatch: pytest.MonkeyPatch, narrow_bytes: int
) -> None:
    monkeypatch.setattr(arrays, "NARROW_BYTES", narrow_bytes)
    column = Ends()
    column.extend(np.array([3, 3]))
    column.extend(np.array([3, 0, 5]))
    column.append(4)
    assert [column.before(index) for index in range(7)] == [0, 3, 6, 9, 9, 14, 18]
