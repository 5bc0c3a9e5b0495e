"""The settings of the tables of queries, their rules, and what they mean to lanes. Pure."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from ...queries import HASHED, OFF, TEXTS, USER_ID, QueryPlan
from ..values.kinds import (
    LAYOUT,
    choice,
    integer,
    optional,
    secret,
    setting,
    text as any_text,
)
from ..values.secrets import Secret
from ..values.shared_rules import ConfigFault

SECTION: Final = "queries"
SHORTEST_KEY: Final = 16
"""Bytes of a secret key: one that can be guessed lets anybody try texts against the hashes."""


@dataclass(frozen=True)
class QueriesSection:
    """The tables of queries."""

    text: str = setting(
        OFF,
        choice(*TEXTS),
        "How queries are kept: off is not at all, plain as text, hashed with a secret key.",
        shapes=LAYOUT,
    )
    by: str | None = setting(
        None,
        optional(any_text()),
        "A grouping of one attribute: a table of each query in each segment. Default: none.",
        shapes=LAYOUT,
    )
    kept: int = setting(
        500, integer(1, 20_000), "Queries that are kept of a lane and hour.", shapes=LAYOUT
    )
    days: int = setting(8, integer(1, 400), "Days of hours that are kept.")
    min_users: int = setting(
        5,
        integer(0, 1_000),
        "A text is shown from so many different users on, below it counts as (rare); 0: always.",
        shapes=LAYOUT,
    )
    user: str = setting(
        USER_ID, any_text(), "Whom min_users counts: user_id, or an attribute.", shapes=LAYOUT
    )
    examples: int = setting(
        2,
        integer(0, 20),
        "Searches that are kept of a query and hour as they were shown, for 24 hours; 0: none.",
        shapes=LAYOUT,
    )
    key: Secret | None = setting(
        None, optional(secret()), "The secret key of hashed texts, at least 16 bytes."
    )
    key_file: str | None = setting(
        None, optional(any_text(rule="must be a file name")), "File with the secret key."
    )

    @property
    def is_on(self) -> bool:
        """Whether queries are kept."""
        return self.text != OFF


def query_plan(section: QueriesSection, namespace: str) -> QueryPlan | None:
    """What lanes keep of queries; None for nothing. The namespace salts the hashes of users."""
    if not section.is_on:
        return None
    return QueryPlan(
        text=section.text,
        by=section.by,
        kept=section.kept,
        days=section.days,
        min_users=section.min_users,
        user=section.user,
        examples=section.examples,
        salt=namespace.encode(),
        key=b"" if section.key is None else section.key.reveal().encode(),
    )


def faults_of(
    section: QueriesSection, groupings: Sequence[tuple[str, ...]]
) -> Iterator[ConfigFault]:
    """What of the section cannot be."""
    if section.is_on and section.by is not None and (section.by,) not in groupings:
        rule = f'must be a grouping of its own: add ["{section.by}"] to segments.groupings'
        yield ConfigFault("queries.by", section.by, rule)
    if section.text != HASHED:
        for name in ("key", "key_file"):
            if getattr(section, name) is not None:
                rule = f'has no effect: needs text = "{HASHED}"'
                yield ConfigFault(f"queries.{name}", getattr(section, name), rule)


def key_faults(section: QueriesSection) -> Iterator[ConfigFault]:
    """What of the secret key cannot be, once files are read. The text of a layout has no key."""
    if section.text != HASHED:
        return
    if section.key is None:
        yield ConfigFault("queries.key_file", None, f'must be given for text = "{HASHED}"')
    elif len(section.key.reveal().encode()) < SHORTEST_KEY:
        rule = f"the key must have at least {SHORTEST_KEY} bytes"
        yield ConfigFault("queries.key_file", section.key_file, rule)
