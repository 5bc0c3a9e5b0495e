"""What is kept of queries, as a configuration asks for it. Pure."""

from dataclasses import dataclass, field
from typing import Final

PLAIN: Final = "plain"
HASHED: Final = "hashed"
OFF: Final = "off"
TEXTS: Final = (OFF, PLAIN, HASHED)
"""How queries are kept: not at all, as their normalised text, or as keyed hashes of it."""
ZERO_SHARE: Final = 5
"""The table of searches without results keeps a fifth of the rows of the others."""
USER_ID: Final = "user_id"


@dataclass(frozen=True)
class QueryPlan:
    """The tables of queries of a lane."""

    text: str = PLAIN
    """PLAIN or HASHED."""
    by: str | None = None
    """A grouping of one attribute that has a table of its own; None: there is none."""
    kept: int = 500
    """Rows of a lane and hour that are stored."""
    days: int = 8
    """Hours are kept for so many days."""
    min_users: int = 5
    """A text is shown from so many different users on; 0: always."""
    user: str = USER_ID
    """Who counts as a user: USER_ID, or an attribute."""
    examples: int = 2
    """Searches that are kept of a row and hour as they were shown; 0: none."""
    salt: bytes = b""
    """Of the hashes of users, beside the day."""
    key: bytes = field(default=b"", repr=False)
    """The secret key of hashed texts."""

    @property
    def shape(self) -> tuple[object, ...]:
        """What a change of begins the tables anew."""
        return self.text, self.by, self.kept, self.min_users, self.user, self.examples

    @property
    def kept_zero(self) -> int:
        """Rows of the table of searches without results."""
        return max(1, self.kept // ZERO_SHARE)


KEYS_ALONE: Final = QueryPlan(min_users=0)
"""Where the keys of queries are needed and no tables are kept."""
