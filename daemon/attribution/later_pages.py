"""How a later page of results extends the list that an impression began with."""

from collections.abc import Sequence

from ..events.types import Impression


class NotThisPage(Exception):
    """The page leaves a gap behind the known list, or contradicts it."""


def extended(known: Sequence[str | None], page: Impression) -> list[str | None]:
    """The known list with what the page adds behind it; the same list where it adds nothing.

    An item that stands further up keeps its first place, and leaves a blank (None) on the page:
    feedback on it means the first place, whether it comes before the page or after it. Raises
    NotThisPage.
    """
    before = page.first_rank - 1
    if before > len(known):
        raise NotThisPage
    overlap = len(known) - before
    earlier = frozenset(known[:before])
    seen_again = [_or_blank(item, earlier) for item in page.items[:overlap]]
    if seen_again != list(known[before : before + len(page.items)]):
        raise NotThisPage
    listed = frozenset(known)
    return [*known, *(_or_blank(item, listed) for item in page.items[overlap:])]


def _or_blank(item: str, listed: frozenset[str | None]) -> str | None:
    return None if item in listed else item
