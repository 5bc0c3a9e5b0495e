"""How large batches are: as large as the backlog, and no larger than the loop can bear."""

import pytest

from relevanced.daemon.pacing import LEAST_RECORDS, TARGET_S, Work, next_size

MOST = 10_000
PIECE = 4_000


def after(size: int, work: Work, most: int = MOST) -> int:
    return next_size(size, work, most, PIECE)


def settled_size(
    cost_s: float, backlog: int, size: int = LEAST_RECORDS, closing_s: float = 0.0
) -> int:
    """The size after many polls of records that cost so much, with so many waiting at each."""
    for _ in range(50):
        taken = min(size, backlog)
        longest = min(taken, PIECE)
        size = after(size, Work(taken, longest, longest * cost_s, closing_s))
    return size


def test_a_backlog_of_cheap_records_is_read_in_the_largest_batches() -> None:
    assert settled_size(cost_s=1e-6, backlog=10**6) == MOST


@pytest.mark.parametrize("cost_s", [5e-6, 2e-5, 4e-5])
def test_no_batch_of_a_backlog_keeps_others_waiting(cost_s: float) -> None:
    size = settled_size(cost_s, backlog=10**6)
    assert min(size, PIECE) * cost_s <= TARGET_S
    assert size == MOST or size * cost_s >= TARGET_S / 4


def test_pieces_that_fit_let_a_batch_grow_beyond_them() -> None:
    assert settled_size(cost_s=TARGET_S / PIECE, backlog=10**6, size=PIECE) == MOST


def test_a_batch_whose_end_takes_long_is_halved_but_not_below_a_piece() -> None:
    assert settled_size(1e-6, backlog=10**6, size=MOST, closing_s=TARGET_S * 2) == PIECE
    assert settled_size(1e-6, backlog=10**6, size=PIECE, closing_s=TARGET_S * 0.6) == PIECE


def test_batches_shrink_when_the_backlog_is_gone() -> None:
    assert settled_size(cost_s=1e-6, backlog=10, size=MOST) == LEAST_RECORDS


@pytest.mark.parametrize("cost_s", [1e-3, 1.0])
def test_the_first_batch_that_takes_too_long_is_the_last(cost_s: float) -> None:
    size = after(5_000, Work(5_000, PIECE, PIECE * cost_s))
    assert size == LEAST_RECORDS


def test_lanes_that_were_not_asked_may_have_more() -> None:
    assert after(MOST, Work(0, asked_all=False)) == MOST


def test_a_steady_flow_keeps_its_size() -> None:
    assert after(1_000, Work(400, 400, 0.01)) == 1_000


@pytest.mark.parametrize("most", [1, 50, LEAST_RECORDS])
def test_the_configured_limit_holds_whatever_happens(most: int) -> None:
    for work in (Work(0), Work(most, most, 1e-6), Work(most, most, 10.0)):
        assert after(most, work, most) == most
