"""The feedback that a table makes of an element of a record: one for each item that it is about.
Pure.
"""

from collections.abc import Iterator
from typing import Final

from ..events.fields import InvalidField, grade_value, identifier, kind_text
from ..events.types import Feedback, Limits, Rejected
from .evaluation import Evaluation
from .tables import FeedbackTable, TimeFormat
from .times import time_ms
from .values import elements_of, id_of, missing, optional_id, rank_of, scalar_text

MOST_ITEMS: Final = 10_000
"""Most items that one event may be about."""


def is_feedback(table: FeedbackTable, found: Evaluation, element: object) -> bool:
    """Whether the table maps this element. Raises InvalidField."""
    if not found.is_true(table.where, element):
        return False
    if table.kinds is None or table.kind is None:
        return True
    return scalar_text(found.find(table.kind, element)) in table.kinds


def feedback_of(
    table: FeedbackTable, found: Evaluation, element: object, written: TimeFormat, limits: Limits
) -> Iterator[Feedback | Rejected]:
    """Yield the feedback to each item; what is refused of it is refused alone. Raises InvalidField
    where all of it is."""
    kind = _kind(table, found, element)
    stated = found.find(table.time, element)
    if stated is None:
        raise missing(table.time)
    at_ms = time_ms(stated, table.time.name, written)
    for one in _elements(table, found, element):
        try:
            yield _feedback(table, found, (element, one), kind, at_ms, limits)
        except InvalidField as error:
            yield Rejected(error.reason, error.detail)


def _kind(table: FeedbackTable, found: Evaluation, element: object) -> str | None:
    if table.kind is None:
        return None
    value = found.find(table.kind, element)
    text = scalar_text(value)
    if text is None:
        if value is None and table.grade is not None:
            return None
        raise missing(table.kind) if value is None else _no_kind(table, value)
    return kind_text(table.kind.name, text if table.kinds is None else table.kinds[text])


def _no_kind(table: FeedbackTable, value: object) -> InvalidField:
    assert table.kind is not None
    shown = "an object" if isinstance(value, dict) else "an array"
    return InvalidField("wrong_type", f"{table.kind.name}={shown}: must be a text or a number")


def _elements(table: FeedbackTable, found: Evaluation, element: object) -> list[object]:
    if table.items is None:
        return [element]
    value = found.find(table.items, element)
    if value is None:
        raise InvalidField("no_item", f"{table.items.name}: the event is about no item of a list")
    return elements_of(value, table.items, MOST_ITEMS)


def _feedback(
    table: FeedbackTable,
    found: Evaluation,
    elements: tuple[object, object],
    kind: str | None,
    at_ms: int,
    limits: Limits,
) -> Feedback:
    """The feedback of an event to one element of it."""
    event, element = elements
    impression_id = optional_id(found, table.item_id, element)
    if impression_id is None and table.id is not None:
        impression_id = id_of(found, table.id, event)
    if impression_id is None:
        raise InvalidField("no_query_id", f"{_id_name(table)}: the event belongs to no search")
    value = element if table.item is None and table.items is not None else None
    if table.item is not None:
        value = found.find(table.item, element)
    name = (table.item or table.items or table.time).name
    item = None if value is None else identifier(name, value)
    rank = rank_of(found, table.rank, element, table.rank_base)
    if item is None and rank is None:
        raise InvalidField("no_item", f"{name}: the event is about no item of a list")
    grade = None if table.grade is None else found.find(table.grade, element)
    if grade is not None and table.grade is not None:
        grade = grade_value(table.grade.name, grade, limits.max_grade)
    if grade is None and kind is None:
        assert table.grade is not None
        raise missing(table.grade)
    return Feedback(impression_id, at_ms, kind, item, rank, grade)


def _id_name(table: FeedbackTable) -> str:
    expression = table.id[0] if table.id else table.item_id
    return "id" if expression is None else expression.name
