"""Chunks that are gathered say the same, in few writes, and long ones are not copied."""

from hypothesis import given
from hypothesis import strategies as st

from relevanced.daemon.exporter.chunks import gathered

LONG = 8
cuts = st.lists(st.binary(max_size=2 * LONG), max_size=30)


@given(cuts)
def test_the_bytes_are_the_same(pieces: list[bytes]) -> None:
    assert b"".join(gathered(pieces, LONG)) == b"".join(pieces)


@given(cuts)
def test_of_two_neighbours_one_is_long(pieces: list[bytes]) -> None:
    lengths = [len(piece) for piece in gathered(pieces, LONG)]
    assert all(max(pair) >= LONG for pair in zip(lengths, lengths[1:], strict=False))


@given(cuts)
def test_long_pieces_are_not_copied(pieces: list[bytes]) -> None:
    kept = {id(piece) for piece in gathered(pieces, LONG)}
    assert all(id(piece) in kept for piece in pieces if len(piece) >= LONG)


def test_nothing_grows_without_end() -> None:
    assert max(map(len, gathered([b"x" * (LONG - 1)] * 100, LONG))) < 2 * LONG
