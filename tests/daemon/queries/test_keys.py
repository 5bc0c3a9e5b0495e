"""Which texts are one query."""

import random
import unicodedata

import pytest

from relevanced.daemon.queries import (
    MOST_CHARACTERS,
    READ_CHARACTERS,
    hashed_keys,
    key_of,
    key_steps,
    keys,
    keys_of,
    text_parts,
    with_segment,
    without_segment,
)

PIECES = [
    *(
        "a",
        "B",
        " ",
        "\t",
        "\u00a0",
        "\u2028",
        "\x1e",
        "\x1f",
        "\x00",
        "\u0301",
        "\u0345",
        "\u1fb3",
    ),
    *(
        "ß",
        "ẞ",
        "İ",
        "ı",
        "ﬁ",
        "①",
        "Ａ",
        "ｶ",
        "ﾞ",
        "가",
        "\u1100",
        "\u1161",
        "Σ",
        "ς",
        "😀",
        "\ufdfa",
    ),
]


def random_text(rng: random.Random) -> str:
    if rng.random() < 0.3:
        return "".join(chr(point) for point in rng.choices(range(1, 0xD800), k=rng.randrange(6)))
    return "".join(rng.choices(PIECES, k=rng.randrange(12)))


def by_the_rule(text: str) -> str:
    for step in ("NFKC", "fold", "NFKC"):
        text = text.casefold() if step == "fold" else unicodedata.normalize("NFKC", text)
    return " ".join(text.split())[:MOST_CHARACTERS].rstrip()


@pytest.mark.parametrize(
    ("text", "key"),
    [
        ("  Running \t SHOES\n", "running shoes"),
        ("ＲＵＮ", "run"),
        ("Straße", "strasse"),
        ("", ""),
        (" \u3000 ", ""),
        ("x" * 127 + " y", "x" * 127),
        ("x" * 500, "x" * 128),
    ],
)
def test_texts_have_these_keys(text: str, key: str) -> None:
    assert key_of(text) == key


def test_joined_texts_have_the_keys_of_each() -> None:
    for seed in range(3000):
        rng = random.Random(seed)
        texts = [random_text(rng) for _ in range(rng.randrange(1, 4))]
        expected = [by_the_rule(text) for text in texts]
        assert keys_of(texts) == [key_of(text) for text in texts] == expected, (seed, texts)


def test_keys_do_not_depend_on_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    for seed in range(300):
        rng = random.Random(seed)
        monkeypatch.setattr(keys, "STEP_CHARACTERS", rng.choice((1, 5, 40)))
        texts = [random_text(rng) * rng.randrange(1, 3) for _ in range(rng.randrange(9))]
        steps, found = key_steps(texts), None
        while found is None:
            try:
                next(steps)
            except StopIteration as done:
                found = done.value
        assert found == keys_of(texts), (seed, texts)


def test_parts_are_cut_by_characters_that_are_read() -> None:
    texts = ["aa", "b", "", "c" * 5000, "dd", "e"]
    assert [texts[part] for part in text_parts(texts, 3)] == [
        ["aa", "b", ""],
        ["c" * 5000],
        ["dd", "e"],
    ]
    assert list(text_parts([], 3)) == []


def test_key_of_a_key_is_the_key() -> None:
    for seed in range(20_000):
        key = key_of(random_text(random.Random(seed)))
        assert key_of(key) == key, (seed, key)


def test_no_texts_have_no_keys() -> None:
    assert keys_of([]) == []


def test_only_the_beginning_of_a_long_text_is_read() -> None:
    assert key_of(" " * READ_CHARACTERS + "shoes") == ""


def test_key_and_segment_can_be_told_apart() -> None:
    for seed in range(2000):
        rng = random.Random(seed)
        pair = key_of(random_text(rng)), random_text(rng)
        assert without_segment(with_segment(*pair)) == pair, seed


def test_hashes_depend_on_the_secret_and_hide_the_text() -> None:
    (one,), (other,) = hashed_keys(["shoes"], b"k1"), hashed_keys(["shoes"], b"k2")
    assert one != other and "shoes" not in one and len(one) == 16
    assert hashed_keys([""], b"k1") == [""]
