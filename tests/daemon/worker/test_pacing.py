"""Batches are as large as the backlog, and chunks no larger than the event loop can bear."""

from dataclasses import replace

import pytest

from relevanced.daemon.worker import (
    MAX_BATCH_S,
    MAX_CHUNK_RECORDS,
    MAX_CHUNK_S,
    MIN_BATCH_RECORDS,
    MIN_CHUNK_RECORDS,
    Cost,
    PollCost,
    is_backlog,
    next_batch_size,
    next_chunk_size,
)

MOST = 10_000


def settled(
    cost_s: float, backlog: int, size: int = MIN_BATCH_RECORDS, closing_s: float = 0.0
) -> tuple[int, int]:
    """(size of batches, of chunks) after many polls of records that cost so much, with so many
    waiting at each."""
    chunk = MIN_BATCH_RECORDS
    for _ in range(50):
        taken = min(size, backlog)
        cut = min(taken, chunk)
        cost = PollCost(taken, Cost(cut, cut * cost_s), Cost(taken, taken * cost_s), closing_s)
        size, chunk = next_batch_size(size, cost, MOST), next_chunk_size(chunk, cost)
    return size, chunk


def test_a_backlog_of_cheap_records_is_read_in_the_largest_batches_and_chunks() -> None:
    assert settled(cost_s=1e-6, backlog=10**6) == (MOST, MAX_CHUNK_RECORDS)


@pytest.mark.parametrize("cost_s", [5e-6, 2e-5, 4e-5, 2e-4])
def test_no_chunk_of_a_backlog_keeps_others_waiting(cost_s: float) -> None:
    _, chunk = settled(cost_s, backlog=10**6)
    assert MAX_CHUNK_S / 4 <= chunk * cost_s <= MAX_CHUNK_S * 1.001  # of floats


@pytest.mark.parametrize("cost_s", [5e-6, 2e-5, 4e-5, 2e-4])
def test_batches_of_a_backlog_are_done_soon_and_not_small(cost_s: float) -> None:
    size, _ = settled(cost_s, backlog=10**6)
    assert size * cost_s <= MAX_BATCH_S * 1.001
    assert size == MOST or size * cost_s >= MAX_BATCH_S / 4


def test_a_batch_whose_end_takes_long_is_halved_but_not_below_a_chunk() -> None:
    assert (
        settled(1e-6, backlog=10**6, size=MOST, closing_s=MAX_CHUNK_S * 2)[0] == MAX_CHUNK_RECORDS
    )
    assert (
        settled(1e-6, backlog=10**6, size=MAX_CHUNK_RECORDS, closing_s=MAX_CHUNK_S * 0.6)[0]
        == MAX_CHUNK_RECORDS
    )


def test_batches_shrink_when_the_backlog_is_gone() -> None:
    assert settled(cost_s=1e-6, backlog=10, size=MOST)[0] == MIN_BATCH_RECORDS


@pytest.mark.parametrize("cost_s", [1e-3, 1.0])
def test_the_first_batch_that_takes_too_long_is_the_last(cost_s: float) -> None:
    cost = PollCost(5_000, Cost(1_000, 1_000 * cost_s), Cost(5_000, 5_000 * cost_s))
    assert next_batch_size(5_000, cost, MOST) == MIN_BATCH_RECORDS
    assert next_chunk_size(1_000, cost) == MIN_CHUNK_RECORDS


def test_the_size_stays_where_busy_lanes_were_not_polled() -> None:
    assert next_batch_size(MOST, PollCost(0, polled_all=False), MOST) == MOST


def test_few_records_of_many_bytes_are_a_backlog() -> None:
    cost = PollCost(8, Cost(8, 0.01), Cost(8, 0.05))
    assert not is_backlog(500, cost) and is_backlog(500, replace(cost, ended_by_bytes=True))


def test_a_steady_flow_keeps_its_sizes() -> None:
    cost = PollCost(400, Cost(400, 0.01), Cost(400, 0.01))
    assert (next_batch_size(1_000, cost, MOST), next_chunk_size(1_000, cost)) == (1_000, 1_000)


@pytest.mark.parametrize("most", [1, 50, MIN_BATCH_RECORDS])
def test_the_configured_limit_holds_whatever_happens(most: int) -> None:
    for seconds in (0.0, 1e-6, 10.0):
        cost = PollCost(most, Cost(most, seconds), Cost(most, seconds))
        assert next_batch_size(most, cost, most) == most
