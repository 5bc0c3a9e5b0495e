"""Result lists of recorded events, with the clicks on them, for `relevanced propensities`.

Pure: lines in, counts out.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field

import msgspec
import numpy as np

from relevanced.metrics.harvesting import Exposures

from ..attribution.later_pages import PageMismatch, placed
from ..config.loading import Config
from ..events.decoder import decoder
from ..events.types import Feedback, Impression, Limits


class _Query(msgspec.Struct):
    """The query of an impression, under the name that each format has for it."""

    query: str | None = None
    user_query: str | None = None


_read_query = msgspec.json.Decoder(_Query).decode


@dataclass(frozen=True)
class Scope:
    """Which propensities are estimated."""

    depth: int
    surface: tuple[str, str] | None = None
    """(attribute, value) of the impressions that count; None: all impressions."""


@dataclass
class RecordedLists:
    """Result lists, and which of their ranks were clicked."""

    by_id: dict[str, tuple[int, str, Sequence[str | None]]] = field(default_factory=dict)
    """Impression id → (time in ms, query, items); None where it is not known what was shown."""
    clicked: set[tuple[str, int]] = field(default_factory=set)
    """(impression id, 0-based rank)."""
    impressions: int = 0
    """Impression records of first pages, in scope or not."""
    in_scope: int = 0
    """Those of them that are in scope, with a query or not."""
    surfaces: Counter[str] = field(default_factory=Counter)
    """Impressions by their value of the attribute of the scope; "" where they have none."""
    by_item: set[str] = field(default_factory=set)
    """Ids of the impressions whose lists are logged item by item."""


def recorded_lists(lines: Iterable[bytes], config: Config, scope: Scope) -> RecordedLists:
    """The result lists of the scope that have a query, with the clicks on them. Later pages are
    left out; feedback counts where it stands after its impression."""
    attribute, _ = scope.surface or ("", "")
    names = (attribute,) if attribute else ()
    lists, limits = RecordedLists(), msgspec.structs.replace(config.limits, attributes=names)
    for event, query in _events(lines, config.events.format, limits):
        if isinstance(event, Impression):
            if event.by_item and event.impression_id in lists.by_item:
                _place(lists, event)
            elif event.first_rank == 1 or event.by_item:
                _add(lists, event, query, scope)
        elif event.kind in config.attribution.grades and event.item is not None:
            _click(lists, event, event.item, config.attribution.window_s * 1000)
    return lists


def _add(lists: RecordedLists, event: Impression, query: str | None, scope: Scope) -> None:
    lists.impressions += 1
    if event.by_item:
        lists.by_item.add(event.impression_id)
    if scope.surface is not None:
        attribute, value = scope.surface
        found = event.attributes.get(attribute)
        lists.surfaces[found or ""] += 1
        if found != value:
            return
    lists.in_scope += 1
    if query:
        items = placed([], event) if event.by_item else event.items
        lists.by_id.setdefault(event.impression_id, (event.time_ms, query, items))


def _place(lists: RecordedLists, event: Impression) -> None:
    """Add one more item of an impression, if it is in scope."""
    found = lists.by_id.get(event.impression_id)
    if found is not None:
        time_ms, query, items = found
        with suppress(PageMismatch):  # the first to arrive wins
            lists.by_id[event.impression_id] = (time_ms, query, placed(items, event))


def _click(lists: RecordedLists, event: Feedback, item: str, window_ms: int) -> None:
    time_ms, _, items = lists.by_id.get(event.impression_id, (0, "", ()))
    if item in items and event.time_ms <= time_ms + window_ms:
        lists.clicked.add((event.impression_id, items.index(item)))


def _events(
    lines: Iterable[bytes], format_name: str, limits: Limits
) -> Iterator[tuple[Impression | Feedback, str | None]]:
    """Each event with the query that its line contains, if any."""
    decode = decoder(format_name, limits)
    for line in lines:
        try:
            query = _read_query(line)
        except (ValueError, RecursionError):
            query = _Query()
        for event in decode(line, None):
            if isinstance(event, Impression | Feedback):
                yield event, query.query or query.user_query


def exposures(lists: RecordedLists, depth: int) -> Exposures:
    """How often each item of a query was shown, and clicked, at each rank."""
    query_ids: dict[str, int] = {}
    item_ids: dict[tuple[int, str], int] = {}
    cells: dict[tuple[int, int, int], list[int]] = {}
    for impression_id, (_, query, items) in lists.by_id.items():
        query_id = query_ids.setdefault(query, len(query_ids))
        for rank0, item in enumerate(items[:depth]):
            if item is None:
                continue
            item_id = item_ids.setdefault((query_id, item), len(item_ids))
            cell = cells.setdefault((query_id, item_id, rank0 + 1), [0, 0])
            cell[0] += 1
            cell[1] += (impression_id, rank0) in lists.clicked
    rows = [(*key, *counts) for key, counts in cells.items()]
    return Exposures(*np.array(rows, np.int64).reshape(-1, 5).T)
