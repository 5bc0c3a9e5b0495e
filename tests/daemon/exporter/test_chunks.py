"""Gathered chunks are the same bytes in fewer writes; long chunks are not copied."""

from hypothesis import given, strategies as st

from relevanced.daemon.exporter import gathered

LONG = 8
cuts = st.lists(st.binary(max_size=2 * LONG), max_size=30)


@given(cuts)
def test_the_bytes_are_the_same(chunks: list[bytes]) -> None:
    assert b"".join(gathered(chunks, LONG)) == b"".join(chunks)


@given(cuts)
def test_of_two_neighbours_one_is_long(chunks: list[bytes]) -> None:
    lengths = [len(chunk) for chunk in gathered(chunks, LONG)]
    assert all(max(pair) >= LONG for pair in zip(lengths, lengths[1:], strict=False))


@given(cuts)
def test_long_pieces_are_not_copied(chunks: list[bytes]) -> None:
    kept = {id(chunk) for chunk in gathered(chunks, LONG)}
    assert all(id(chunk) in kept for chunk in chunks if len(chunk) >= LONG)


def test_nothing_grows_without_end() -> None:
    assert max(map(len, gathered([b"x" * (LONG - 1)] * 100, LONG))) < 2 * LONG
