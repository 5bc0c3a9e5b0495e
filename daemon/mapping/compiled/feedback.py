"""The feedback of a table, compiled. Pure. What the rules of `feedback` would refuse is odd."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ...events import (
    BY_ID,
    Feedback,
    Limits,
    LogRecord,
    PlainFeedback,
    kind_text,
)
from ..event_tables import MOST_ITEMS, grade_of, rank_from
from ..expressions import Expression, FeedbackTable, TimeFormat
from ..getters import Get, Odd, asks_record, condition, getter, is_true, many_of
from ..shapes import ID, RANK, SCALAR, TIME, Attributes, Role, Scope, Shape
from ..value_texts import scalar_text
from .impressions import NO_ITEM, NO_SEARCH, Outcome, event_id
from .lists import (
    Column,
    FieldsRow,
    Milliseconds,
    column,
    id_text,
    listed,
    milliseconds,
    optional_text,
    row_of,
)


@dataclass(frozen=True)
class CompiledFeedback:
    """Reads the feedback of one table from instances."""

    table: FeedbackTable
    limits: Limits
    row: FieldsRow
    """Time, kind if there is one, the visitor if it counts, the parts of the id if there is one."""
    has_visitor: bool
    items: Get | None
    item: Column | None
    item_id: Column | None
    rank: Column | None
    grade: Column | None
    ms: Milliseconds
    at_once: bool
    """Whether elements of several records may be read at once."""

    def read(self, instance: Any, record: LogRecord) -> Outcome | list[Outcome]:
        """Return the feedback to each item, and what is skipped of it: a list where it is not
        exactly one. Raises Odd, or a ValueError, where the interpreter must read it."""
        table, row = self.table, self.row.one(instance, record)
        time_ms, kind, at = self.ms.of(row[0]), None, 1
        if table.kind is not None:
            kind, at = _kind(table, row[1]), 2
        visitor = None
        if self.has_visitor:
            visitor, at = optional_text(row[at]), at + 1
        elements = [instance] if self.items is None else self.items(instance, record)
        count = 0 if elements is None else len(elements)
        if not count:
            return NO_ITEM
        if count > MOST_ITEMS:
            raise Odd
        nothing = [None] * count
        own_ids = nothing if self.item_id is None else self.item_id(elements, record)
        items: Sequence[Any] = nothing if table.items is None else elements
        if self.item is not None:
            items = self.item(elements, record)
        ranks = nothing if self.rank is None else self.rank(elements, record)
        grades = nothing if self.grade is None else self.grade(elements, record)
        event, parts = (kind, time_ms, visitor), row[at:]
        found = [
            self._one(optional_text(own_ids[n]), parts, event, items[n], ranks[n], grades[n])
            for n in range(count)
        ]
        return found[0] if count == 1 else found

    def _one(
        self,
        own_id: str | None,
        parts: Sequence[Any],
        event: tuple[str | None, int, str | None],
        item: Any,
        rank: Any,
        grade: Any,
    ) -> Outcome:
        """The feedback to one item."""
        impression_id = own_id
        if impression_id is None:
            impression_id = event_id(parts)
        kind, time_ms, visitor = event
        if self.limits.join != BY_ID:
            impression_id, visitor = self.limits.joins_by(impression_id, visitor)
        if not impression_id and visitor is None:
            return NO_SEARCH
        assert impression_id is not None
        if item is not None and (type(item) is not str or not item):
            item = id_text(item)
        if rank is not None:
            rank = rank_from(rank, self.table.rank_base)
        if item is None and (visitor is not None or rank is None or rank < 1):
            return NO_ITEM
        if grade is not None:
            grade = grade_of("", grade, self.limits.max_grade)
        elif kind is None:
            raise Odd
        if item is None or grade is not None or kind is None or visitor is not None:
            return Feedback(impression_id, time_ms, kind, item, rank, grade, visitor)
        return PlainFeedback(impression_id, kind, item, time_ms, rank)


def compiled_feedback(
    table: FeedbackTable,
    shape: Shape,
    attributes: Attributes,
    written: TimeFormat,
    limits: Limits,
) -> CompiledFeedback:
    """Return what reads the feedback of a table from instances of a shape. Raises Unsupported."""
    fields: list[tuple[Expression, Role]] = [(table.time, TIME)]
    if table.kind is not None:
        fields.append((table.kind, SCALAR))
    has_visitor = limits.join != BY_ID and table.visitor is not None
    if has_visitor and table.visitor is not None:
        fields.append((table.visitor, ID))
    fields += [(part, ID) for part in table.id or ()]
    row = row_of(fields, shape, attributes)
    items, scopes = None, list[Scope]([shape])
    if table.items is not None:
        items, scopes = listed(table.items.tree, shape, attributes)
        if table.item is None:
            for scope in scopes:
                if isinstance(scope, Shape):
                    scope.as_role(ID)

    def of_elements(expression: Expression | None, role: Role) -> Column | None:
        return None if expression is None else column(expression, scopes, attributes, role)

    return CompiledFeedback(
        table,
        limits,
        row,
        has_visitor,
        items,
        of_elements(table.item, ID),
        of_elements(table.item_id, ID),
        of_elements(table.rank, RANK),
        of_elements(table.grade, SCALAR),
        milliseconds(written),
        not any(map(asks_record, (table.item, table.item_id, table.rank, table.grade))),
    )


def is_feedback(table: FeedbackTable, shape: Shape, attributes: Attributes) -> Get:
    """Return the function that says whether a table maps an instance. Raises Unsupported."""
    where = None if table.where is None else condition(table.where.tree, shape, attributes)
    kinds = table.kinds
    if kinds is None or table.kind is None:
        return where or (lambda instance, record: True)
    read = KindIs(getter(table.kind.tree, shape, attributes, SCALAR), kinds)
    if where is None:
        return read
    return lambda instance, record: is_true(where(instance, record)) and read(instance, record)


@dataclass(frozen=True)
class KindIs:
    """Whether the kind of an instance stands among others."""

    get: Get
    among: Mapping[str, str]

    def __call__(self, instance: Any, record: LogRecord) -> bool:
        kind = self.get(instance, record)
        return (kind if type(kind) is str else scalar_text(kind)) in self.among

    def many(self, instances: Sequence[Any], records: Sequence[LogRecord]) -> list[bool]:
        """The same of many instances."""
        kinds, among = many_of(self.get, instances, records), self.among
        return [(kind if type(kind) is str else scalar_text(kind)) in among for kind in kinds]


def _kind(table: FeedbackTable, value: Any) -> str | None:
    text = value if type(value) is str else scalar_text(value)
    if text is None:
        if value is None and table.grade is not None:
            return None
        raise Odd
    return kind_text("", text if table.kinds is None else table.kinds[text])
