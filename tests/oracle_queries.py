"""What the oracle derives from queries."""

import re
import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Dated:
    """Files of classes."""

    files: Sequence[tuple[int, Sequence[tuple[str, str]]]]
    """(start in ms, (query, class) of each line), by ascending start."""
    unlisted: str = "tail"


Rule = Sequence[int] | Mapping[str, str] | Dated
"""The most words of each class, a regular expression for each value, or files of classes."""


def query_of(value: object) -> tuple[str | None, list[str]]:
    """The query of an impression, and the reason where it is left out."""
    if value is None:
        return None, []
    return (value, []) if isinstance(value, str) else (None, ["bad_query"])


def derived(rules: Mapping[str, Rule], query: str | None, time_ms: int) -> dict[str, str]:
    """The derived attributes of an impression."""
    key = normalised(query or "")
    found = {name: _value(rule, key, time_ms) for name, rule in rules.items()}
    return {name: value for name, value in found.items() if value is not None}


def normalised(query: str) -> str:
    """What equal queries have in common."""
    key = query[:1024]
    for form in ("NFKC", "casefold", "NFKC"):
        key = key.casefold() if form == "casefold" else unicodedata.normalize("NFKC", key)
    return " ".join(key.split())[:128].strip()


def _value(rule: Rule, key: str, time_ms: int) -> str | None:
    if not key:
        return None
    if isinstance(rule, Dated):
        started = [lines for start_ms, lines in rule.files if start_ms <= time_ms]
        classes = [of for query, of in (started or [[]])[-1] if normalised(query) == key]
        return (classes or [rule.unlisted])[0] if started else None
    if isinstance(rule, Mapping):
        matching = [value for value, pattern in rule.items() if re.search(pattern, key)]
        return matching[0] if matching else None
    words, least = len(key.split()), 1
    for most in rule:
        if words <= most:
            return f"{most}" if least == most else f"{least}-{most}"
        least = most + 1
    return f"{least}+"
