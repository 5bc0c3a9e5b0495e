"""What a list becomes that comes again: filled, extended by a later page, given an item. Pure."""

from collections.abc import Sequence

from ..events import Impression
from ..lane import Lane, LaterPage, encode_items
from .gain_changes import change_state, grade_new_items, graded_ms


class PageMismatch(Exception):
    """The page leaves a gap after the list so far, or the page or the item contradicts it."""


def extended_list(items: Sequence[str | None], page: Impression | LaterPage) -> list[str | None]:
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


def list_with_item(items: Sequence[str | None], shown: Impression | LaterPage) -> list[str | None]:
    """The list with an item of a list that is logged item by item; the same list where the item
    already stands at its rank, and where that rank does not count.

    An item never moves and is never replaced: the first to arrive wins. Ranks of which nothing is
    known yet are blanks (None), which the items that stand there fill when they arrive. Raises
    PageMismatch.
    """
    if not shown.items:
        return list(items)
    (item,), rank0 = shown.items, shown.first_rank - 1
    longer = [*items, *[None] * (rank0 + 1 - len(items))]
    if longer[rank0] == item:
        return longer
    if longer[rank0] is not None or item in items:
        raise PageMismatch
    longer[rank0] = item
    return longer


def _or_blank(item: str, listed: frozenset[str | None]) -> str | None:
    return None if item in listed else item


def note_relisted(
    lane: Lane, slot: int, items: Sequence[str | None], watermark_ms: int | None
) -> None:
    """Replace the list of an open impression, by a record that met this watermark."""
    now = encode_items(items)
    if lane.judged is not None:
        met_ms = None if watermark_ms is None else graded_ms(lane, slot, watermark_ms)
        lane.judged.shown.change(slot, met_ms, lane.open.text_of(slot), now)
    lane.open.paged_items[slot] = now
    lane.changes.relisted.add(slot)


def apply_repeated(
    lane: Lane, slot: int, event: Impression | LaterPage, watermark: int | None
) -> str:
    """Apply one more record of an impression that is open: the first to arrive wins, unless this
    one adds items."""
    items = lane.open.list_of(slot)
    if event.first_rank == 1 and items and not event.by_item:
        same = event.items and list(event.items) == items[: len(event.items)]
        return "duplicate" if same else "conflicting"
    try:
        longer = list_with_item(items, event) if event.by_item else extended_list(items, event)
    except PageMismatch:
        return "conflicting"
    if longer == items:
        return "duplicate"
    note_relisted(lane, slot, longer, watermark)
    if lane.open.touches is not None:
        met_ms = event.time_ms if watermark is None else watermark
        if isinstance(event, LaterPage):  # shown with the pages before it, whichever came first
            met_ms = max((met_ms, *lane.open.touches.met_ms.get(slot, {}).values()))
        lane.open.touches.note_items(slot, items, longer, met_ms)
    before = lane.open.states[lane.open.index_of(slot)]
    after = (len(longer), lane.states[before][1])
    change_state(lane, slot, lane.states.id_of(after, lane.states.surface_id_of(before)))
    grade_new_items(lane, slot, event, event.first_rank - 1 if event.by_item else len(items))
    return "extended" if items else "filled"
