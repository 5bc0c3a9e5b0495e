"""Secrets: texts that are shown masked, and that files may have in place of settings. Pure."""

from collections.abc import Callable
from typing import Final, Generic, TypeVar

from ...errors import StartError

MASK: Final = "***"

T = TypeVar("T")


class ReadAgain(Generic[T]):
    """What files say, read again when a server refuses it: a mounted secret may have changed. Until
    then the former value stands, as files may change before the server does."""

    def __init__(self, read: Callable[[], T], value: T, note: Callable[[], None]) -> None:
        """`read` raises OSError, ValueError or StartError; `note` is called for a new value."""
        self.value = value
        self._read = read
        self._note = note

    def refused(self, used: T) -> bool:
        """Note that `used` was refused; returns whether there is another value to try now."""
        if self.value != used:
            return True
        try:
            found = self._read()
        except (OSError, ValueError, StartError):
            return False  # whoever was refused says so; a file that is being written is whole soon
        if found == used:
            return False
        self.value = found
        self._note()
        return True


class Secret:
    """A text whose `repr` is a mask. Only `reveal()` returns the value."""

    __slots__ = ("_again", "_mask", "_value")

    def __init__(self, value: str, mask: str = MASK, again: ReadAgain[str] | None = None) -> None:
        self._value = value
        self._mask = mask
        self._again = again

    def reveal(self) -> str:
        """The value, for the client library that needs it only."""
        return self._value if self._again is None else self._again.value

    def refused(self, used: str) -> bool:
        """Note that a server refused this value; returns whether there is another one to try now,
        as where its file has changed."""
        return self._again is not None and self._again.refused(used)

    def __repr__(self) -> str:
        return self._mask

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Secret) and other.reveal() == self.reveal()

    def __hash__(self) -> int:
        return hash(self._value)
