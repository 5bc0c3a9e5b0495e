"""Which records name a crawler as their user agent, or a visitor without consent. Pure."""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final

from .profile import scalars
from .toml import literal, toml

AGENT: Final = re.compile(r'(?i)(?:^|[."_])(?:user_?agent|ua)"?$')
"""Paths of user agents."""
CRAWLER: Final = "(?i)bot|crawl|spider|headless|preview"
"""What crawlers call themselves, also in the proposed rule."""
CONSENT: Final = re.compile("(?i)consent|opt_?in|allow_?tracking")
"""Paths of flags that are false where somebody does not want to be counted."""
MOST_RECORDS: Final = 20_000


@dataclass(frozen=True)
class Share:
    """How many of the records with a path are to be left out."""

    path: str
    records: int
    out: int

    @property
    def of(self) -> float:
        """Their share."""
        return self.out / self.records


def crawlers(values: Iterable[Any]) -> list[Share]:
    """By each path of user agents, those with the most of them first."""
    is_crawler = re.compile(CRAWLER).search
    return _shares(
        (path, is_crawler(member) is not None)
        for value in values
        for path, member in scalars(value)
        if isinstance(member, str) and AGENT.search(path)
    )


def refusals(values: Iterable[Any]) -> list[Share]:
    """By each path of flags of consent, those with the most records first."""
    return _shares(
        (path, not member)
        for value in values
        for path, member in scalars(value)
        if isinstance(member, bool) and CONSENT.search(path)
    )


def _shares(found: Iterable[tuple[str, bool]]) -> list[Share]:
    counts: dict[str, list[int]] = {}
    for path, is_out in found:
        count = counts.setdefault(path, [0, 0])
        count[0] += 1
        count[1] += is_out
    shares = [Share(path, records, out) for path, (records, out) in counts.items()]
    return sorted(shares, key=lambda share: -share.records)


def drop_lines(share: Share) -> tuple[str, ...]:
    """The rule that leaves crawlers out, as TOML."""
    where = f"regex({share.path}, {literal(CRAWLER)})"
    words = f"{100 * share.of:.1f} % of the records with a user agent"
    return (
        "[[sources.drop]]",
        'reason = "bot"  # counted under it',
        f"where = {toml(where)}  # {words}",
    )
