"""How a later page of results extends the list of its impression. Pure."""

from collections.abc import Sequence

from ..events.types import Impression


class PageMismatch(Exception):
    """The page leaves a gap after the list so far, or contradicts it."""


def extended(items: Sequence[str | None], page: Impression) -> list[str | None]:
    """The list with what the page adds to its end; the same list where it adds nothing.

    An item that already stands further up keeps its first rank, and leaves a blank (None) on the
    page: feedback on it means the first rank, whether it comes before the page or after it. Raises
    PageMismatch.
    """
    before = page.first_rank - 1
    if before > len(items):
        raise PageMismatch
    overlap = len(items) - before
    earlier = frozenset(items[:before])
    repeated = [_or_blank(item, earlier) for item in page.items[:overlap]]
    if repeated != list(items[before : before + len(page.items)]):
        raise PageMismatch
    listed = frozenset(items)
    return [*items, *(_or_blank(item, listed) for item in page.items[overlap:])]


def _or_blank(item: str, listed: frozenset[str | None]) -> str | None:
    return None if item in listed else item
