"""What the oracle derives from queries."""

import re
import unicodedata
from collections.abc import Mapping, Sequence

Rule = Sequence[int] | Mapping[str, str]
"""The most words of each class, or a regular expression for each value."""


def query_of(value: object) -> tuple[str | None, list[str]]:
    """The query of an impression, and the reason where it is left out."""
    if value is None:
        return None, []
    return (value, []) if isinstance(value, str) else (None, ["bad_query"])


def derived(rules: Mapping[str, Rule], query: str | None) -> dict[str, str]:
    """The derived attributes of an impression."""
    key = (query or "")[:1024]
    for form in ("NFKC", "casefold", "NFKC"):
        key = key.casefold() if form == "casefold" else unicodedata.normalize("NFKC", key)
    key = " ".join(key.split())[:128].strip()
    found = {name: _value(rule, key) for name, rule in rules.items()}
    return {name: value for name, value in found.items() if value is not None}


def _value(rule: Rule, key: str) -> str | None:
    if not key:
        return None
    if isinstance(rule, Mapping):
        matching = [value for value, pattern in rule.items() if re.search(pattern, key)]
        return matching[0] if matching else None
    words, least = len(key.split()), 1
    for most in rule:
        if words <= most:
            return f"{most}" if least == most else f"{least}-{most}"
        least = most + 1
    return f"{least}+"
