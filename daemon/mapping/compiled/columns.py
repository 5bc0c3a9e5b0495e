"""Many instances read at once, as columns: what is usual in every way. Pure.

Most instances of a table are alike. Reading a field of all of them costs a fraction of reading each
by itself. What is not usual (a number as an id, a list that is missing, a later page) is marked,
and read by itself: `impressions`, `feedback`.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate, chain, compress
from typing import Any

import msgspec
import numpy as np
from msgspec import Raw

from ...events import LAST_TOUCH, SURELY_SHORT, LogRecord
from ...schemas import Elements, MemberColumns, merged_columns
from ..event_tables import rank_from
from ..getters import many_of
from .feedback import CompiledFeedback
from .impressions import CompiledImpressions
from .lists import by_rank


class Unusual(Exception):
    """Instances must be read one by one."""


@dataclass
class UsualInstances:
    """Which of n instances are usual."""

    mask: bytearray

    @staticmethod
    def all(count: int) -> "UsualInstances":
        """So many, all of them."""
        return UsualInstances(bytearray(b"\x01" * count))

    def texts(self, values: Sequence[Any]) -> Sequence[Any]:
        """Return the values, (n,): those of usual instances are short texts, not empty."""
        if are_texts(values):
            return values
        mask = self.mask
        for n, value in enumerate(values):
            if type(value) is not str or not 0 < len(value) <= SURELY_SHORT:
                mask[n] = 0
        return values


def are_texts(values: Sequence[Any]) -> bool:
    """Whether all values are short texts, not empty. A failing join shows that one is none in a
    fifth of the time of asking each."""
    try:
        return all(values) and (not "".join(values) or max(map(len, values)) <= SURELY_SHORT)
    except TypeError:
        return False


_NULL_BYTES = len(b"null")
_SURE_RANK = 2**62
_encode = msgspec.json.Encoder().encode


@dataclass(frozen=True)
class ShownColumns:
    """Impressions, n of them; only usual ones mean something."""

    usual: UsualInstances
    ids: Sequence[str]
    items: Sequence[Raw | bytes]
    times_ms: Sequence[int]
    user_ids: Sequence[str | None]
    values: Sequence[tuple[Any, ...]]
    lengths: Sequence[int] | None
    """Ids in each list; None where the items are kept as they were written."""
    queries: Sequence[str | None] = ()
    """What was searched for, (n,); empty where it is not needed."""
    visitors: Sequence[str | None] = ()
    """Who saw them, likewise."""

    def only_usual(self) -> "ShownColumns":
        """Those that are usual."""
        mask = self.usual.mask
        return ShownColumns(
            self.usual,
            list(compress(self.ids, mask)),
            list(compress(self.items, mask)),
            list(compress(self.times_ms, mask)),
            list(compress(self.user_ids, mask)),
            list(compress(self.values, mask)),
            None if self.lengths is None else list(compress(self.lengths, mask)),
            list(compress(self.queries, mask)),
            list(compress(self.visitors, mask)),
        )


def impressions(
    table: CompiledImpressions, instances: Sequence[Any], records: Sequence[LogRecord]
) -> ShownColumns:
    """Return the impressions of some instances. Raises what reading one of them raises."""
    if not table.at_once:
        raise Unusual
    count, at, usual = len(instances), table.at, UsualInstances.all(len(instances))
    columns = table.row.many(instances, records)
    ids = _ids(columns[: at.time], usual)
    times_ms = table.ms.of_many(columns[at.time])
    user_ids: Sequence[Any] = [None] * count
    if at.user is not None:
        user_ids = _user_ids(columns[at.user], usual)
    visitors: Sequence[Any] = ()
    if at.visitor is not None:
        visitors = _user_ids(columns[at.visitor], usual)
        visitors = [one or user for one, user in zip(visitors, user_ids, strict=True)]
    if at.page is not None:
        _only_first_pages(table, columns[at.page], usual)
    items, lengths = _items(table, instances, records, usual)
    labels = columns[at.labels :]
    values = list(zip(*labels, strict=True)) if labels else [()] * count
    queries: Sequence[Any] = ()
    if table.query is not None:
        queries = many_of(table.query, instances, records)
        for n, query in enumerate(queries):
            if query is not None and type(query) is not str:
                usual.mask[n] = 0
    return ShownColumns(usual, ids, items, times_ms, user_ids, values, lengths, queries, visitors)


def _ids(parts: Sequence[Sequence[Any]], usual: UsualInstances) -> Sequence[Any]:
    if len(parts) == 1:
        return usual.texts(parts[0])
    for part in parts:
        usual.texts(part)
    if not all(usual.mask):
        parts = [[one if type(one) is str else "" for one in part] for part in parts]
    return usual.texts(list(map("|".join, zip(*parts, strict=True))))


def _user_ids(values: Sequence[Any], usual: UsualInstances) -> Sequence[Any]:
    if are_texts(values):
        return values
    values = [None if value == "" else value for value in values]
    for n, value in enumerate(values):
        if value is not None and (type(value) is not str or len(value) > SURELY_SHORT):
            usual.mask[n] = 0
    return values


def _only_first_pages(
    table: CompiledImpressions, pages: Sequence[Any], usual: UsualInstances
) -> None:
    first = 1 if table.table.first_rank is not None else table.table.page_base
    for n, page in enumerate(pages):
        if page is not None and (type(page) is not int or page != first):
            usual.mask[n] = 0


def _items(
    table: CompiledImpressions,
    instances: Sequence[Any],
    records: Sequence[LogRecord],
    usual: UsualInstances,
) -> tuple[Sequence[Raw | bytes], Sequence[int] | None]:
    found = many_of(table.items, instances, records)
    kinds = set(map(type, found))
    if kinds == {Raw}:
        if _NULL_BYTES in map(len, found):
            for n, text in enumerate(found):
                if bytes(text) == b"null":
                    usual.mask[n] = 0
        return found, None
    if kinds == {MemberColumns}:
        return _elements(table, found, merged_columns(found), records, usual)
    if kinds != {list}:
        for n, listed in enumerate(found):
            if type(listed) is MemberColumns:
                found[n] = list(listed)
            elif type(listed) is not list:
                usual.mask[n], found[n] = 0, []
    return _elements(table, found, list(chain.from_iterable(found)), records, usual)


def _elements(
    table: CompiledImpressions,
    lists: Sequence[Sequence[Any]],
    elements: Elements,
    records: Sequence[LogRecord],
    usual: UsualInstances,
) -> tuple[Sequence[bytes], Sequence[int]]:
    """The lists of ids, (n,), as JSON, and how many are in each. All elements are read at
    once."""
    columns, depth = table.columns, table.limits.depth
    sizes = list(map(len, lists))
    stops = list(accumulate(sizes))
    starts = [0, *stops[:-1]]
    record = records[0]
    ids = list(elements) if columns.item is None else columns.item(elements, record)
    of_elements = UsualInstances.all(len(elements))
    of_elements.texts(ids)
    for column in (columns.grade, columns.team):
        if column is not None:
            values = column(elements, record)
            if values.count(None) != len(values):
                for n, value in enumerate(values):
                    if value is not None:
                        of_elements.mask[n] = 0
    if 0 in of_elements.mask:
        unusual = np.flatnonzero(np.frombuffer(of_elements.mask, np.uint8) == 0)
        for n in np.searchsorted(stops, unusual, side="right").tolist():
            usual.mask[n] = 0
    spans = zip(starts, stops, strict=True)
    lengths = sizes if max(sizes) <= depth else [min(size, depth) for size in sizes]
    if columns.rank is None:
        return [_encode(ids[start : min(stop, start + depth)]) for start, stop in spans], lengths
    ranks, base = columns.rank(elements, record), table.table.rank_base
    in_order = chain.from_iterable([range(base, base + size) for size in sizes])
    if ranks == list(in_order):
        return [_encode(ids[start : min(stop, start + depth)]) for start, stop in spans], lengths
    return [
        _encode(_ordered(ids[start:stop], ranks[start:stop])[:depth]) for start, stop in spans
    ], lengths


def _ordered(ids: Sequence[Any], ranks: Sequence[Any]) -> Sequence[Any]:
    order = by_rank(ranks)
    return ids if order is None else [ids[index] for index in order]


@dataclass(frozen=True)
class ReactionColumns:
    """Feedback, n of it; only that of usual instances means something."""

    usual: UsualInstances
    ids: Sequence[str]
    times_ms: Sequence[int]
    kinds: Sequence[str]
    items: Sequence[str]
    ranks: Sequence[int | None]

    def only_usual(self) -> "ReactionColumns":
        """Those that are usual."""
        mask = self.usual.mask
        return ReactionColumns(
            self.usual,
            list(compress(self.ids, mask)),
            list(compress(self.times_ms, mask)),
            list(compress(self.kinds, mask)),
            list(compress(self.items, mask)),
            list(compress(self.ranks, mask)),
        )


def feedback(
    compiled: CompiledFeedback, instances: Sequence[Any], records: Sequence[LogRecord]
) -> ReactionColumns:
    """Return the feedback of some instances, to one item each. Raises what reading one of them
    raises."""
    table, usual = compiled.table, UsualInstances.all(len(instances))
    if table.kind is None or not table.id or compiled.item is None or not compiled.at_once:
        raise Unusual
    if compiled.limits.join == LAST_TOUCH:
        raise Unusual
    columns = compiled.row.many(instances, records)
    elements = list(instances)
    if compiled.items is not None:
        elements = _single_elements(compiled, instances, records, usual)
    record = records[0]
    ids = _ids(columns[3 if compiled.has_visitor else 2 :], usual)
    if compiled.item_id is not None:
        _without_own_id(compiled.item_id(elements, record), usual)
    if compiled.grade is not None:
        _without_own_id(compiled.grade(elements, record), usual)
    ranks: Sequence[int | None] = [None] * len(elements)
    if compiled.rank is not None:
        ranks = _ranks(compiled.rank(elements, record), table.rank_base)
    return ReactionColumns(
        usual=usual,
        ids=ids,
        times_ms=compiled.ms.of_many(columns[0]),
        kinds=_kinds(compiled, columns[1], usual),
        items=usual.texts(compiled.item(elements, record)),
        ranks=ranks,
    )


def _single_elements(
    compiled: CompiledFeedback,
    instances: Sequence[Any],
    records: Sequence[LogRecord],
    usual: UsualInstances,
) -> list[Any]:
    """The only element of each; another one where there is not exactly one."""
    assert compiled.items is not None
    lists = many_of(compiled.items, instances, records)
    elements, any_element = list[Any](), None
    for n, listed in enumerate(lists):
        if type(listed) in (list, MemberColumns) and len(listed) == 1:
            any_element = listed[0]
            elements.append(any_element)
        else:
            usual.mask[n] = 0
            elements.append(None)
    if any_element is None:
        raise Unusual
    return [any_element if not usual.mask[n] else one for n, one in enumerate(elements)]


def _without_own_id(values: Sequence[Any], usual: UsualInstances) -> None:
    """Mark what has a value of its own: an id, or a grade."""
    if values.count(None) != len(values):
        for n, value in enumerate(values):
            if value is not None:
                usual.mask[n] = 0


def _kinds(
    compiled: CompiledFeedback, values: Sequence[Any], usual: UsualInstances
) -> Sequence[Any]:
    usual.texts(values)
    kinds = compiled.table.kinds
    if kinds is None:
        return values
    return [kinds.get(value, "") if type(value) is str else "" for value in values]


def _ranks(values: Sequence[Any], base: int) -> Sequence[int | None]:
    before = base - 1
    return [
        (
            None
            if value is None
            else (
                value - before
                if type(value) is int and base <= value < _SURE_RANK
                else rank_from(value, base)
            )
        )
        for value in values
    ]
