"""Records with something changed at any depth: as text, because no JSON writer writes such things.
Seeded, and cheap enough for millions."""

import json
import random
from collections.abc import Callable, Sequence
from typing import Any, Final

from tests.fuzz.hostile import NESTED, NUMBERS, TEXTS, WORDS

SHORT: Final = [token for token in (*NUMBERS, *TEXTS, *WORDS, *NESTED[:2]) if len(token) < 700]
USUAL: Final = [
    *(b"null", b"0", b"1", b"2", b"-1", b"1.5", b"2.0", b"true", b"false", b'""', b"[]", b"{}"),
    *(b'"x"', b'"1"', b'"02"', b"[null]", b"[1,2]", b'["a"]', b'[{"id":"a"}]', b'{"id":"a"}'),
]
MOST_BYTES = 4 << 20
"""A list that is made long is not much longer: it may stand in others that are."""


def mutated(rng: random.Random, record: Any, others: Sequence[Any]) -> bytes:
    """A record with up to five changes, then perhaps cut, doubled, or with bytes changed."""
    value = _written(rng, record, _changes(rng, record, others))
    drawn = rng.random()
    if drawn < 0.06:
        return _flipped(rng, value)
    if drawn < 0.08:
        return value[: rng.randrange(len(value) + 1)]
    if drawn < 0.12:
        parts = [value, *(json.dumps(rng.choice(others)).encode() for _ in range(rng.randrange(3)))]
        rng.shuffle(parts)
        return b"[" + rng.choice((b",", b" , ", b",null,")).join(parts) + b"]"
    if drawn < 0.14:
        return value + rng.choice((b" ", b"x", b"\x00", value))
    return value


def _changes(rng: random.Random, record: Any, others: Sequence[Any]) -> dict[int, str]:
    """Number of a value, in the order of writing → what becomes of it."""
    count = _count(record)
    kinds = ("null", "usual", "usual", "hostile", "remove", "double", "borrow", "huge", "wrap")
    return {rng.randrange(count): rng.choice(kinds) for _ in range(rng.choice((0, 1, 1, 2, 3, 5)))}


def _count(value: Any) -> int:
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return 1 + sum(map(_count, inner))


def _written(rng: random.Random, record: Any, changes: dict[int, str]) -> bytes:
    numbers = iter(range(1 << 30))
    ascii_only = rng.random() < 0.5

    def text(value: Any) -> bytes:
        return json.dumps(value, ensure_ascii=ascii_only).encode()

    def write(value: Any) -> bytes:
        change = changes.get(next(numbers))
        if isinstance(value, dict):
            members = [member for name, one in value.items() for member in _member(name, one)]
            plain = b"{" + b",".join(members) + b"}"
        elif isinstance(value, list):
            plain = b"[" + b",".join([one for one in map(write, value) if one]) + b"]"
        else:
            plain = text(value)
        return plain if change is None else _changed(rng, plain, change)

    def _member(name: str, value: Any) -> list[bytes]:
        written, key = write(value), text(name)
        if not written:
            return []
        if rng.random() < 0.01:
            key = b'"' + b"".join(b"\\u%04x" % ord(one) for one in name) + b'"'
        if written.startswith(b"@double@"):
            again = written.removeprefix(b"@double@")
            first = rng.choice((again, rng.choice(USUAL), rng.choice(SHORT)))
            return [key + b":" + first, key + b":" + again]
        return [key + b": "[: rng.choice((1, 2)) + len(b"")] + written]

    written = write(record)
    return written.replace(b"@double@", b"") if written else b"{}"


def _changed(rng: random.Random, plain: bytes, change: str) -> bytes:
    most = MOST_BYTES // (len(plain) + 1) + 1
    changes: dict[str, Callable[[], bytes]] = {
        "null": lambda: b"null",
        "usual": lambda: rng.choice(USUAL),
        "hostile": lambda: rng.choice(SHORT),
        "remove": lambda: b"",
        "double": lambda: b"@double@" + plain,
        "borrow": lambda: b'"'
        + b"".join(rng.choices((b"a", b"\xc3\xa9", b"9"), k=rng.choice((1, 63, 64, 65, 130))))
        + b'"',
        "huge": lambda: rng.choice(
            (
                b"[" + b",".join([plain] * min(1200, most)) + b"]",
                b"[" + b",".join([plain] * min(101, most)) + b"]",
                *NESTED,
            )
        ),
        "wrap": lambda: rng.choice(
            (
                b"[" + plain + b"]",
                b'{"id":' + plain + b"}",
                json.dumps(plain.decode(errors="replace")).encode(),
            )
        ),
    }
    return changes[change]()


def _flipped(rng: random.Random, value: bytes) -> bytes:
    changed = bytearray(value)
    for _ in range(rng.randrange(1, 4)):
        at, length = rng.randrange(len(changed) + 1), rng.randrange(3)
        changed[at : at + length] = rng.randbytes(rng.randrange(3))
    return bytes(changed)
