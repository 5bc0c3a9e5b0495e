"""Queries for random traffic, good and bad ones, and rules that derive attributes from them."""

import json
import random
from collections.abc import Mapping, Sequence
from dataclasses import replace

from tests.oracle import Record
from tests.oracle_queries import Rule

QUERIES: tuple[object, ...] = (
    *("shoes", "Running SHOES", "  running   shoes ", "running\tshoes for men", "ab12345"),
    *("AB12345", "nike shoes", "red, all", "all", "other", "ﬁne ﬂat", "İstanbul", "ß" * 200),
    *("a b " * 64, "a" * 127 + " b", "\u00a0\u3000", "", "x" * 1100 + " y", "e\u0301" * 90),
    *(None, 7, ["shoes"], {"q": "shoes"}, True, "a\x1eb", "0"),
)
RULES: Mapping[str, Rule] = {
    "length": (1, 2, 5),
    "kind": {"sku": r"^[a-z]{2}\d{5,}$", "all": r"\ball\b", "brand, shoes": "(?i)NIKE|shoes$"},
}


def searched(records: Sequence[Record], rng: random.Random) -> list[Record]:
    """The records with a query in most impressions."""
    return [replace(record, value=_searched(record.value, rng)) for record in records]


def _searched(value: bytes | None, rng: random.Random) -> bytes | None:
    try:
        events = json.loads(value or b"")
    except ValueError:
        return value
    for event in events if isinstance(events, list) else [events]:
        if isinstance(event, dict) and event.get("type") == "impression" and rng.random() < 0.9:
            event["query"] = rng.choice(QUERIES)
    return json.dumps(events).encode()
