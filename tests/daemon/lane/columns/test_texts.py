"""A column of texts returns each of them, also after texts were dropped at its front."""

import numpy as np
import pytest

from relevanced.daemon.lane import Spans, Texts, chained, cut, joined, joined_texts, merged, piece

TEXTS = ["q1", "", "Ärmel", "q12", "x"]


def column_of(texts: list[str]) -> Texts:
    column = Texts()
    column.extend(*joined_texts(texts))
    return column


def spans_of(texts: list[str]) -> Spans:
    return Spans.of(joined_texts(texts))


def test_texts_come_back_one_by_one() -> None:
    column = column_of(TEXTS)
    column.append(b"last")
    assert [text.decode() for text in column] == [*TEXTS, "last"]


def test_dropped_texts_move_the_others_up() -> None:
    column = column_of(TEXTS)
    column.drop_front(2)
    column.append(b"new")
    assert [text.decode() for text in column] == ["Ärmel", "q12", "x", "new"]
    assert column.joined(1, 3)[0] == b"q12x"


def test_skipped_texts_are_empty() -> None:
    column = column_of(["a"])
    column.skip(2)
    column.append(b"b")
    assert [*column] == [b"a", b"", b"", b"b"]


def test_spans_are_where_texts_begin_and_end() -> None:
    column = column_of(TEXTS)
    column.drop_front(1)
    starts, ends = column.spans(np.array([1, 2]))
    everything = column.joined(0, len(column))[0]
    cut_out = [everything[a:b].decode() for a, b in zip(starts, ends, strict=True)]
    assert cut_out == ["Ärmel", "q12"]


def test_equal_is_equal_byte_by_byte() -> None:
    column = column_of(["abc", "abd", "ab", "Ä", "abc"])
    texts = spans_of(["abc", "abc", "abc", "Ä", "ab", "abc"])
    same = column.equal(np.array([0, 1, 2, 3, 4, 0]), texts)
    assert same.tolist() == [True, False, False, True, False, True]
    assert column.equal(np.zeros(0, np.int64), spans_of([])).tolist() == []


def test_texts_of_any_length_are_compared_wherever_they_begin(rng: np.random.Generator) -> None:
    texts = ["".join(rng.choice(["a", "b"], size)) for size in rng.integers(0, 20, 200)]
    texts += [text[:-1] + "c" for text in texts[:100] if text]
    column, indices = column_of(texts), rng.integers(0, len(texts), 3000)
    compared = [texts[index] for index in rng.permutation(indices)]
    compared[::2] = [texts[index] for index in indices[::2].tolist()]
    pairs = zip(indices.tolist(), compared, strict=True)
    expected = [texts[index] == text for index, text in pairs]
    assert column.equal(indices, spans_of(compared)).tolist() == expected


@pytest.mark.parametrize("indices", [[], [1], [0, 2, 4], [4, 3, 3, 1, 0]])
def test_rows_begin_with_the_texts(indices: list[int]) -> None:
    rows, sizes = column_of(TEXTS).rows(np.array(indices, np.int64))
    begun = [row[:size].tobytes().decode() for row, size in zip(rows, sizes, strict=True)]
    assert begun == [TEXTS[index] for index in indices]


def test_joined_texts_are_cut_again() -> None:
    texts = [text.encode() for text in TEXTS]
    assert cut(*joined(texts)) == texts
    assert cut(*piece(joined(texts), 1, 4)) == texts[1:4]


def test_spans_are_selected_and_ordered_as_lists_are(rng: np.random.Generator) -> None:
    texts = spans_of(TEXTS)
    assert [texts.text(n) for n in range(len(texts))] == TEXTS
    assert cut(*texts.part(1, 4).joined()) == [b"", "Ärmel".encode(), b"q12"]
    order = rng.permutation(len(TEXTS))
    assert cut(*texts.at(order).joined()) == [TEXTS[n].encode() for n in order.tolist()]
    assert texts.at(np.zeros(0, np.int64)).joined()[0] == b""


def test_later_spans_replace_earlier_ones() -> None:
    first, second = (np.array([0, 2, 3]), spans_of(["a", "b", "c"])), (
        np.array([2]),
        spans_of(["d"]),
    )
    texts = merged(5, [first, second])
    assert [texts.text(n) for n in range(5)] == ["a", "", "d", "c", ""]


def test_chained_texts_follow_each_other() -> None:
    parts = [joined_texts(part) for part in (["a", "ä"], [], ["bc"])]
    assert cut(*chained(parts)) == [b"a", "ä".encode(), b"bc"]
    assert cut(*chained([])) == []
