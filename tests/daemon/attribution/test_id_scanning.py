"""A list is plain only where a decoder finds a list of short ids in exactly that text."""

import json
import random

import msgspec
import numpy as np
import pytest

from relevanced.daemon.attribution import (
    NO_RANK,
    NOT_PLAIN,
    as_stored,
    cut_to,
    lengths_of,
    ranks0_of,
    respelled,
)
from relevanced.daemon.events import MAX_TEXT_BYTES
from relevanced.daemon.lane import NOT_FOUND, Spans, Texts, encode_items, joined, joined_texts
from tests.seeds import seeds

PLAIN = {b"[]": 0, b'["a"]': 1, b'["a","b c,d","]["]': 3, b'["' + b"x" * 256 + b'"]': 1}
NOT_PLAIN_TEXTS = (
    b"null",
    b"7",
    b'"a"',
    b"{}",
    b'{"a":"b"}',
    b"[ ]",
    b'["a", "b"]',
    b'[ "a"]',
    b'["a" ]',
    b'["a",7]',
    b'[7,"a"]',
    b"[7]",
    b"[null]",
    b'["a",null,"b"]',
    b'[["a"]]',
    b'[["a"],["b"]]',
    b'[{"a":"b"}]',
    b'[""]',
    b'["a",""]',
    b'["a\\"b"]',
    b'["\\u0061"]',
    '["ä"]'.encode(),
    b'["' + b"x" * (MAX_TEXT_BYTES + 1) + b'"]',
)


@pytest.mark.parametrize(("text", "length"), PLAIN.items())
def test_plain_lists_are_counted(text: bytes, length: int) -> None:
    assert lengths_of(joined([text])).tolist() == [length]


@pytest.mark.parametrize("text", NOT_PLAIN_TEXTS)
def test_any_other_list_is_left_to_a_decoder(text: bytes) -> None:
    between = lengths_of(joined([b'["a"]', text, b'["b","c"]']))
    assert between.tolist() == [1, NOT_PLAIN, 2]


@pytest.mark.parametrize(
    ("text", "ids"),
    [
        (b'["a", "b c"]', ["a", "b c"]),
        (b"[7,\n12]", ["7", "12"]),
        (b'["\\u0061", "x\\"y"]', ["a", 'x"y']),
        ('["ä"]'.encode(), ["ä"]),
    ],
)
def test_a_list_of_ids_is_spelled_as_it_is_stored(text: bytes, ids: list[str]) -> None:
    assert respelled(text) == (encode_items(ids), len(ids))


@pytest.mark.parametrize(
    "text", [b"null", b'"a"', b"{}", b"[null]", b"[1.5]", b'["a",""]', b'["\\ud800"]', b"[true]"]
)
def test_text_that_is_no_list_of_ids_is_left_unchanged(text: bytes) -> None:
    assert respelled(text) == (text, NOT_PLAIN)


def test_no_lists_have_no_lengths() -> None:
    assert lengths_of(joined([])).tolist() == []


@pytest.mark.parametrize("seed", seeds(20))
def test_a_batch_of_lists_counts_each_as_a_decoder_does(seed: int) -> None:
    rng = random.Random(seed)
    texts = [any_text(rng) for _ in range(rng.choice((1, 50, 500)))]
    assert lengths_of(joined(texts)).tolist() == [slowly(text) for text in texts]


def any_text(rng: random.Random) -> bytes:
    if rng.random() < 0.2:
        return rng.choice(NOT_PLAIN_TEXTS)
    ids = ["".join(rng.choices('ab,][ :{}"\\', k=rng.choice((1, 2, 9)))) for _ in range(4)]
    ids = ids[: rng.choice((0, 1, 4))]
    return encode_items(ids) if rng.random() < 0.9 else json.dumps(ids).encode()


def slowly(text: bytes) -> int:
    """The slow twin: decode it, and compare it with how it would be stored."""
    try:
        ids = msgspec.json.decode(text, type=list[str])
    except msgspec.ValidationError:
        return NOT_PLAIN
    plain = all(0 < len(one) <= MAX_TEXT_BYTES and one.isascii() for one in ids)
    escaped = b"\\" in text
    return len(ids) if plain and not escaped and encode_items(ids) == text else NOT_PLAIN


HOSTILE = ["a", "b", "ab", ",", '","', 'a"', "\\", "a\\", "ä", "", "[", "]", "a,b", "x" * 300]


def slow_rank0(items: list[str], item: str, rank: int) -> int:
    """At its rank, or the first of all where no rank is stated."""
    if rank == NO_RANK:
        return items.index(item) if item in items else NOT_FOUND
    return rank - 1 if 1 <= rank <= len(items) and items[rank - 1] == item else NOT_FOUND


def fast_ranks0(lists: list[list[str]], items: list[str], ranks: list[int]) -> list[int]:
    column = Texts()
    for shown in lists:
        column.append(encode_items(shown))
    rows = column.rows(np.arange(len(lists)))
    return ranks0_of(rows, Spans.of(joined_texts(items)), np.array(ranks, np.int64)).tolist()


@pytest.mark.parametrize("seed", seeds(20))
def test_ranks_are_those_that_decoding_the_lists_gives(seed: int) -> None:
    rng = random.Random(seed)
    print("seed", seed)
    lists = [rng.choices(HOSTILE, k=rng.randrange(8)) for _ in range(100)]
    items = [rng.choice(HOSTILE) for _ in lists]
    ranks = [rng.choice([NO_RANK, -(2**62), -1, 0, 1, 2, 3, 7, 2**62]) for _ in lists]
    for shown, item, rank, rank0 in zip(lists, items, ranks, fast_ranks0(lists, items, ranks)):
        expected = slow_rank0(shown, item, rank)
        sure = "\\" not in encode_items(shown).decode() and (item != "," or rank != NO_RANK)
        assert rank0 == expected if sure else rank0 in (expected, NOT_FOUND), (shown, item, rank)


def test_no_lists_have_no_ranks() -> None:
    assert fast_ranks0([], [], []) == []
    assert fast_ranks0([[]], ["a"], [1]) == [NOT_FOUND]


def test_lists_are_cut_to_the_depth() -> None:
    texts = [b'["a","b","c"]', b"[]", b'["x"]', b'{"a":1}', '["ü","b","c"]'.encode()]
    lists, lengths = cut_to(2, *as_stored(joined(texts)))
    cut = [b'["a","b"]', b"[]", b'["x"]', b'{"a":1}', '["ü","b"]'.encode()]
    assert [lists[n] for n in range(len(lists))] == cut
    assert lengths.tolist() == [2, 0, 1, NOT_PLAIN, 2]
