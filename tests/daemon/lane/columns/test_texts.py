"""A column of texts gives back each of them, and takes no notice of those dropped at its front."""

import numpy as np
import pytest

from relevanced.daemon.lane.columns.texts import Texts, cut, joined, joined_texts, piece

SOME = ["q1", "", "Ärmel", "q12", "x"]


def column_of(texts: list[str]) -> Texts:
    column = Texts()
    column.extend(*joined_texts(texts))
    return column


def test_texts_come_back_one_by_one() -> None:
    column = column_of(SOME)
    column.append(b"last")
    assert [text.decode() for text in column] == [*SOME, "last"]


def test_dropped_texts_move_the_others_up() -> None:
    column = column_of(SOME)
    column.drop_front(2)
    column.append(b"new")
    assert [text.decode() for text in column] == ["Ärmel", "q12", "x", "new"]
    assert column.joined(1, 3)[0] == b"q12x"


def test_skipped_texts_are_empty() -> None:
    column = column_of(["a"])
    column.skip(2)
    column.append(b"b")
    assert [*column] == [b"a", b"", b"", b"b"]


def test_spans_say_where_texts_stand() -> None:
    column = column_of(SOME)
    column.drop_front(1)
    starts, ends = column.spans(np.array([1, 2]))
    everything = column.joined(0, len(column))[0]
    told = [everything[a:b].decode() for a, b in zip(starts, ends, strict=True)]
    assert told == ["Ärmel", "q12"]


def test_equal_is_equal_byte_by_byte() -> None:
    column = column_of(["abc", "abd", "ab", "Ä", "abc"])
    same = column.equal(np.array([0, 1, 2, 3, 4, 0]), ["abc", "abc", "abc", "Ä", "ab", "abc"])
    assert same.tolist() == [True, False, False, True, False, True]
    assert column.equal(np.zeros(0, np.int64), []).tolist() == []


def test_texts_of_any_length_are_compared_wherever_they_stand(rng: np.random.Generator) -> None:
    texts = ["".join(rng.choice(["a", "b"], size)) for size in rng.integers(0, 20, 200)]
    texts += [text[:-1] + "c" for text in texts[:100] if text]
    column, numbers = column_of(texts), rng.integers(0, len(texts), 3000)
    told = [texts[number] for number in rng.permutation(numbers)]
    told[::2] = [texts[number] for number in numbers[::2].tolist()]
    expected = [texts[number] == text for number, text in zip(numbers.tolist(), told, strict=True)]
    assert column.equal(numbers, told).tolist() == expected


@pytest.mark.parametrize("numbers", [[], [1], [0, 2, 4], [4, 3, 3, 1, 0]])
def test_rows_begin_with_the_texts(numbers: list[int]) -> None:
    rows, sizes = column_of(SOME).rows(np.array(numbers, np.int64))
    begun = [row[:size].tobytes().decode() for row, size in zip(rows, sizes, strict=True)]
    assert begun == [SOME[number] for number in numbers]


def test_joined_texts_are_cut_again() -> None:
    texts = [text.encode() for text in SOME]
    assert cut(*joined(texts)) == texts
    assert cut(*piece(joined(texts), 1, 4)) == texts[1:4]
