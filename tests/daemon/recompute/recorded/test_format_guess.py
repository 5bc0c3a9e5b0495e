"""Where nothing counts, the reason and the way out are named."""

import json
from typing import Final

import pytest

from relevanced.daemon.recompute.files import explained, guess
from tests.daemon.events.test_ubi import CLICK, QUERY

UBI: Final = [json.dumps(value).encode() for value in (QUERY, CLICK)]
NATIVE: Final = (
    b'{"type":"feedback","impression_id":"q","timestamp":1795176000000,"kind":"a","rank":1}'
)
GUESSES: Final = {
    "ubi": (
        UBI,
        "native",
        "format ubi (2 of the first 2 lines refused are events of it): --format",
    ),
    "native": ([NATIVE, b"x"], "ubi", "format native (1 of the first 2 lines refused"),
    "zstd": ([b"\x28\xb5\x2f\xfd..."], "native", "compressed with zstd: zstdcat FILE | "),
    "utf-16": (["{}".encode("utf-16")], "native", "text in UTF-16: iconv"),
    "pretty": ([b"{", b'  "type": "impression",'], "native", "over several lines"),
    "pretty array": ([b"[", b'  "a",', b"  1"], "native", "over several lines"),
    "tabs": ([b"q1\td1\t1", b"q1\td2\t0"], "native", "a table separated by tabs"),
    "commas": ([b"query,item", b"q1,d2"], "native", "a table separated by commas"),
    "text": ([b"hello", b"a,b"], "native", "are not JSON"),
    "fields": (
        [b'{"user":1,"sku":"d7"}', b'{"page":1}'],
        "native",
        "fields user, sku, page; an ev",
    ),
}


@pytest.mark.parametrize(("samples", "name", "words"), GUESSES.values(), ids=GUESSES)
def test_lines_of_another_kind_are_recognised(samples: list[bytes], name: str, words: str) -> None:
    assert words in guess(samples, name)


def test_the_reason_is_named_before_the_guess() -> None:
    assert explained(0, {}, {}, [], "native") == "No event was read: the files have no lines."
    refused = {"too_large": 2}
    found = explained(0, {}, refused, [], "native")
    assert found == "No event was read as format native: too_large 2."
    assert explained(0, {}, refused, UBI, "native").startswith("No event was read as format native")
    found = explained(3, {"later_page": 2, "accepted": 0}, {}, [], "native")
    assert found == "No impression was accepted (later_page 2): there is nothing to score."
    found = explained(3, {}, refused, UBI, "native")
    assert "(there is none)" in found and "--format ubi" in found
