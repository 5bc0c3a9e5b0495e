"""Words of sizes and shares hold still."""

import pytest

from relevanced.daemon.changes import SHARES, SIZES


def told(values: list[float]) -> list[str]:
    """The word after each look."""
    word, words = "", []
    for value in values:
        word = SIZES.word(value, word)
        words.append(word)
    return words


def test_a_value_that_wavers_at_a_bound_keeps_its_word() -> None:
    assert set(told([0.29, 0.31] * 60)) == {"clearly"}
    assert set(told([0.31, 0.29] * 60)) == {"much"}


def test_a_value_that_is_clearly_beyond_its_band_gets_another_word() -> None:
    assert told([0.29, 0.31, 0.34, 0.31, 0.26]) == ["clearly"] * 2 + ["much"] * 2 + ["clearly"]
    assert told([0.05, 0.6, 0.05]) == ["slightly", "much", "slightly"]


@pytest.mark.parametrize(
    ("share", "word"),
    [
        (-0.1, "a part"),
        (0.4, "about half"),
        (0.59, "about half"),
        (0.6, "most"),
        (0.9, "nearly all"),
        (2.0, "nearly all"),
    ],
)
def test_every_share_has_a_word(share: float, word: str) -> None:
    assert SHARES.word(share) == word
    assert SHARES.word(share, "of another version") == word
