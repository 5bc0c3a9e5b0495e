"""How large batches are: as large as the backlog. How large pieces are: no larger than the loop can
bear."""

import pytest

from relevanced.daemon.worker.pacing import (
    BATCH_S,
    LEAST_PIECE,
    LEAST_RECORDS,
    MOST_PIECE,
    PIECE_S,
    Spent,
    Work,
    next_piece,
    next_size,
)

MOST = 10_000


def settled(
    cost_s: float, backlog: int, size: int = LEAST_RECORDS, closing_s: float = 0.0
) -> tuple[int, int]:
    """(size of batches, of pieces) after many polls of records that cost so much, with so many
    waiting at each."""
    piece = LEAST_RECORDS
    for _ in range(50):
        taken = min(size, backlog)
        cut = min(taken, piece)
        work = Work(taken, Spent(cut, cut * cost_s), Spent(taken, taken * cost_s), closing_s)
        size, piece = next_size(size, work, MOST), next_piece(piece, work)
    return size, piece


def test_a_backlog_of_cheap_records_is_read_in_the_largest_batches_and_pieces() -> None:
    assert settled(cost_s=1e-6, backlog=10**6) == (MOST, MOST_PIECE)


@pytest.mark.parametrize("cost_s", [5e-6, 2e-5, 4e-5, 2e-4])
def test_no_piece_of_a_backlog_keeps_others_waiting(cost_s: float) -> None:
    _, piece = settled(cost_s, backlog=10**6)
    assert PIECE_S / 4 <= piece * cost_s <= PIECE_S * 1.001  # of floats


@pytest.mark.parametrize("cost_s", [5e-6, 2e-5, 4e-5, 2e-4])
def test_batches_of_a_backlog_are_done_soon_and_not_small(cost_s: float) -> None:
    size, _ = settled(cost_s, backlog=10**6)
    assert size * cost_s <= BATCH_S * 1.001
    assert size == MOST or size * cost_s >= BATCH_S / 4


def test_a_batch_whose_end_takes_long_is_halved_but_not_below_a_piece() -> None:
    assert settled(1e-6, backlog=10**6, size=MOST, closing_s=PIECE_S * 2)[0] == MOST_PIECE
    assert settled(1e-6, backlog=10**6, size=MOST_PIECE, closing_s=PIECE_S * 0.6)[0] == MOST_PIECE


def test_batches_shrink_when_the_backlog_is_gone() -> None:
    assert settled(cost_s=1e-6, backlog=10, size=MOST)[0] == LEAST_RECORDS


@pytest.mark.parametrize("cost_s", [1e-3, 1.0])
def test_the_first_batch_that_takes_too_long_is_the_last(cost_s: float) -> None:
    work = Work(5_000, Spent(1_000, 1_000 * cost_s), Spent(5_000, 5_000 * cost_s))
    assert next_size(5_000, work, MOST) == LEAST_RECORDS
    assert next_piece(1_000, work) == LEAST_PIECE


def test_lanes_that_were_not_asked_may_have_more() -> None:
    assert next_size(MOST, Work(0, asked_all=False), MOST) == MOST


def test_a_steady_flow_keeps_its_sizes() -> None:
    work = Work(400, Spent(400, 0.01), Spent(400, 0.01))
    assert (next_size(1_000, work, MOST), next_piece(1_000, work)) == (1_000, 1_000)


@pytest.mark.parametrize("most", [1, 50, LEAST_RECORDS])
def test_the_configured_limit_holds_whatever_happens(most: int) -> None:
    for seconds in (0.0, 1e-6, 10.0):
        work = Work(most, Spent(most, seconds), Spent(most, seconds))
        assert next_size(most, work, most) == most
