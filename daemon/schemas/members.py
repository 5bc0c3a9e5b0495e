"""Which members of a record are read: the others are skipped unread. Pure."""

from collections.abc import Hashable, Mapping
from typing import Final, TypeAlias

Members: TypeAlias = Mapping[str, "Members"] | None
"""The members that are read, by name, each with what is read of it; None: all. Arrays pass it on to
their elements."""

EVERYTHING: Final[Members] = None
UNREAD: Final = ""
"""A member with null in place of those that are not read, where none is: an object that has members
stays one that is not empty."""


def members_key(members: Members) -> Hashable:
    """Return a value that is equal where the same members are read."""
    if members is None:
        return None
    return frozenset((name, members_key(inner)) for name, inner in members.items())
