"""The events that the tables of a mapping make of an element of a record: an impression, or
feedback for each item that it is about. Pure.
"""

import re
from collections.abc import Collection, Iterator, Sequence
from contextlib import suppress
from typing import Final

from ..events import (
    BY_ID,
    RANK_LIMIT,
    Feedback,
    Impression,
    InvalidField,
    Limits,
    Rejected,
    Trimmed,
    grade_value,
    identifier,
    kind_text,
    refused,
    whole_number,
)
from .expressions import (
    ALL_MEMBERS,
    EMPTY,
    Drop,
    Evaluation,
    ExperimentsTable,
    Expression,
    FeedbackTable,
    Id,
    ImpressionTable,
    TimeFormat,
)
from .times import time_ms
from .value_texts import ValueTexts, scalar_text

_DECIMAL: Final = re.compile(r"-?\d{1,18}(?:\.\d{1,18})?", re.ASCII)
JOINED_BY: Final = "|"
_LAST: Final = 2**63


def missing(expression: Expression) -> InvalidField:
    """Return the error of a field that is not there."""
    return InvalidField("missing_field", f"{expression.name}: must be there and not null")


def grade_of(name: str, value: object, most: float) -> float:
    """Return a grade up to `most`, also in digits as text: so exports of warehouses write numbers.
    Raises InvalidField."""
    if type(value) is str and _DECIMAL.fullmatch(value):
        value = float(value)
    return grade_value(name, value, most)


def rank_of(found: Evaluation, rank: Expression | None, element: object, base: int) -> int | None:
    """Return the rank that an element states, as `rank_from`; None where it states none."""
    return None if rank is None else rank_from(found.find(rank, element), base)


def rank_from(value: object, base: int) -> int | None:
    """Return the rank that a value states from `base`; None where it states none. One below the
    base is below 1: no item of a list has it, so that a wrong base is counted `rank_mismatch`."""
    number = whole_number(value)
    return None if number is None else min(number - base + 1, RANK_LIMIT)


def rank_order(values: Sequence[object]) -> list[int]:
    """Return the order of elements whose ranks have these values: that of the numbers, whatever
    the base; those without one last, in their own order."""
    numbers = [_LAST if (number := whole_number(v)) is None else number for v in values]
    return sorted(range(len(numbers)), key=numbers.__getitem__)


def id_of(found: Evaluation, expressions: Id, value: object) -> str | None:
    """Return an id that may have several parts; None where one of them is null or empty."""
    parts = list[str]()
    for expression in expressions:
        part = found.find(expression, value)
        if part in (None, ""):
            return None
        parts.append(identifier(expression.name, part))
    joined = JOINED_BY.join(parts)
    return identifier(expressions[0].name, joined) if len(parts) > 1 else joined


def optional_id(found: Evaluation, expression: Expression | None, value: object) -> str | None:
    """Return an id; None where it is not mapped, null, or the empty text that trackers write for
    an unknown user."""
    text = None if expression is None else found.find(expression, value)
    return None if expression is None or text in (None, "") else identifier(expression.name, text)


def elements_of(found: object, expression: Expression, most: int) -> list[object]:
    """Return the elements of an array. Raises InvalidField for another value, and for an array of
    more than `most` elements."""
    if not isinstance(found, list):
        raise refused("wrong_type", expression.name, found, "must be an array")
    if len(found) > most:
        rule = f"{len(found)} elements: must be <= {most}"
        raise InvalidField("too_large", f"{expression.name}: {rule}")
    return found


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
    at_ms = time_ms(stated, table.time.name, written, found.record_ms)
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
        if value is not None:
            shown = "an object" if isinstance(value, dict) else "an array"
            rule = "must be a text or a number"
            raise InvalidField("wrong_type", f"{table.kind.name}={shown}: {rule}")
        if table.grade is None:
            raise missing(table.kind)
        return None
    return kind_text(table.kind.name, text if table.kinds is None else table.kinds[text])


def _elements(table: FeedbackTable, found: Evaluation, element: object) -> list[object]:
    if table.items is None:
        return [element]
    value = found.find(table.items, element)
    if value is None or value == []:
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
    stated = optional_id(found, table.item_id, element)
    if stated is None and table.id is not None:
        stated = id_of(found, table.id, event)
    visitor = None if limits.join == BY_ID else optional_id(found, table.visitor, event)
    impression_id, visitor = limits.joins_by(stated, visitor)
    if not impression_id and visitor is None:
        expression = table.id[0] if table.id else table.item_id
        id_name = "id" if expression is None else expression.name
        raise InvalidField("no_query_id", f"{id_name}: the event belongs to no search")
    value = element if table.item is None and table.items is not None else None
    if table.item is not None:
        value = found.find(table.item, element)
    name = (table.item or table.items or table.time).name
    item = None if value is None else identifier(name, value)
    rank = rank_of(found, table.rank, element, table.rank_base)
    if item is None and (visitor is not None or rank is None or rank < 1):
        raise InvalidField("no_item", f"{name}: the event is about no item of a list")
    grade = None if table.grade is None else found.find(table.grade, element)
    if grade is not None and table.grade is not None:
        grade = grade_of(table.grade.name, grade, limits.max_grade)
    if grade is None and kind is None:
        assert table.grade is not None
        raise missing(table.grade)
    return Feedback(impression_id, at_ms, kind, item, rank, grade, visitor)


MOST_LIST_ITEMS: Final = 50_000
"""Most elements of one list."""


def impression_of(
    table: ImpressionTable, found: Evaluation, element: object, written: TimeFormat, limits: Limits
) -> Impression | Trimmed:
    """Return the impression. Raises InvalidField: also with a reason to skip it."""
    impression_id = id_of(found, table.id, element)
    if impression_id is None:
        raise InvalidField("no_query_id", f"{table.id[0].name}: the list belongs to no search")
    shown_at = found.find(table.time, element)
    if shown_at is None:
        raise missing(table.time)
    shown_ms = time_ms(shown_at, table.time.name, written, found.record_ms)
    first_rank = _first_rank(table, found, element)
    elements = _in_rank_order(table, found, _list_elements(table, found, element))
    shown = elements[: max(0, limits.depth - first_rank + 1)]
    items = tuple(_item(table, found, one) for one in shown)
    texts = _attributes(table, found, element, limits.attributes)
    others = _passed_on(table, found.passing_on, element, limits)
    experiments = _experiments(table.experiments, found, element)
    grades = _grades(table.grade, found, zip(items, shown, strict=True), limits.max_grade)
    user_id, visitor = optional_id(found, table.user or table.visitor, element), None
    if limits.join != BY_ID:
        visitor = optional_id(found, table.visitor, element) or user_id
    dropped = [*texts.dropped, *experiments.dropped]
    unsaid = dropped if limits.queries else []
    impression = Impression(
        impression_id=impression_id,
        time_ms=shown_ms,
        items=items,
        first_rank=first_rank,
        attributes=others | texts.texts,
        experiments=experiments.texts,
        grades=grades,
        user_id=user_id,
        teams=_teams(table.team, found, shown),
        query=_query(table.query, found, element, unsaid) if limits.reads_queries else None,
        visitor=visitor,
    )
    return Trimmed(impression, tuple(dropped)) if dropped else impression


def _list_elements(table: ImpressionTable, found: Evaluation, element: object) -> list[object]:
    value = found.find(table.items, element)
    if value is None:
        if table.no_items == EMPTY:
            return []
        raise InvalidField("no_list", f"{table.items.name}: there is none")
    return elements_of(value, table.items, MOST_LIST_ITEMS)


def _in_rank_order(
    table: ImpressionTable, found: Evaluation, elements: list[object]
) -> list[object]:
    if table.rank is None:
        return elements
    order = rank_order([found.find(table.rank, element) for element in elements])
    return [elements[index] for index in order]


def _item(table: ImpressionTable, found: Evaluation, element: object) -> str:
    expression = table.item or table.items
    value = element if table.item is None else found.find(table.item, element)
    if value is None:
        raise missing(expression)
    return identifier(expression.name, value)


def _first_rank(table: ImpressionTable, found: Evaluation, element: object) -> int:
    if table.first_rank is not None:
        return _whole(table.first_rank, found, element, 1, least=1)
    if table.page is None or table.page_size is None:
        return 1
    page = _whole(table.page, found, element, table.page_base, least=table.page_base)
    if page == table.page_base:
        return 1
    size = _whole(table.page_size, found, element, 0, least=1)
    first_rank = (page - table.page_base) * size + 1
    if first_rank >= _LAST:
        raise refused("bad_rank", table.page.name, page, "the page begins at too high a rank")
    return first_rank


def _whole(
    expression: Expression, found: Evaluation, element: object, default: int, least: int
) -> int:
    value = found.find(expression, element)
    number = default if value is None else whole_number(value)
    if number is None or number < least:
        raise refused("bad_rank", expression.name, value, f"must be an integer >= {least}")
    return number


def _grades(
    grade: Expression | None, found: Evaluation, pairs: "zip[tuple[str, object]]", most: float
) -> dict[str, float]:
    grades: dict[str, float] = {}
    if grade is not None:
        for item, element in pairs:
            value = found.find(grade, element)
            if value is not None:
                grades[item] = grade_of(grade.name, value, most)
    return grades


def _teams(
    team: Expression | None, found: Evaluation, elements: list[object]
) -> tuple[str | None, ...]:
    """Whose ranker brought each item; empty where no item has one: the list is no interleaving."""
    if team is None:
        return ()
    names = tuple(optional_id(found, team, element) for element in elements)
    return names if any(name is not None for name in names) else ()


def _attributes(
    table: ImpressionTable, found: Evaluation, element: object, needed: Collection[str] | None
) -> ValueTexts:
    texts = ValueTexts()
    for name, expression in (table.attributes or {}).items():
        if name != ALL_MEMBERS and (needed is None or name in needed):
            texts.add(name, found.find(expression, element))
    rest = (table.attributes or {}).get(ALL_MEMBERS)
    if rest is not None:
        members = found.find(rest, element)
        if isinstance(members, dict) and needed is not None:
            members = {name: members[name] for name in needed if name in members}
        texts.add_scalars(members)
    return texts


def _passed_on(
    table: ImpressionTable, found: Evaluation, element: object, limits: Limits
) -> dict[str, str]:
    """The attributes that are only passed on: as far as they can be attributes."""
    if not limits.passes_on:
        return {}
    texts, attributes = ValueTexts(), table.attributes or {}
    for name, expression in attributes.items():
        if name != ALL_MEMBERS and limits.is_only_passed_on(name):
            with suppress(InvalidField):
                texts.add(name, found.find(expression, element))
    if ALL_MEMBERS in attributes:
        with suppress(InvalidField):
            texts.add_scalars(found.find(attributes[ALL_MEMBERS], element))
    return {name: text for name, text in texts.texts.items() if limits.is_only_passed_on(name)}


def _query(
    query: Expression | None, found: Evaluation, element: object, dropped: list[str]
) -> str | None:
    """What was searched for. What is no text is left out: with or without it, the record counts."""
    if query is None:
        return None
    try:
        value = False if found.lacks_queries else found.beside.find(query, element)
    except InvalidField:
        value = False
    if value is None or isinstance(value, str):
        return value
    dropped.append("bad_query")
    return None


def _experiments(experiments: ExperimentsTable, found: Evaluation, element: object) -> ValueTexts:
    texts = ValueTexts()
    for name, variant in (experiments.variants or {}).items():
        texts.add(name, found.find(variant, element))
    if experiments.map is not None:
        texts.add_members(found.find(experiments.map, element))
    if experiments.list is not None:
        add_listed(texts, experiments, found, found.find(experiments.list, element))
    return texts


def add_listed(
    texts: ValueTexts, experiments: ExperimentsTable, found: Evaluation, listed: object
) -> None:
    """Take the experiments of a list of objects. Raises InvalidField."""
    if not isinstance(listed, list) or experiments.name is None or experiments.variant is None:
        texts.dropped += ["bad_value"] * (listed is not None)
        return
    for one in listed:
        name = found.find(experiments.name, one)
        if name is not None and not isinstance(name, str):
            texts.dropped.append("bad_value")
        elif name:
            texts.add(name, found.find(experiments.variant, one))


def drops(drop: Drop, found: Evaluation, element: object) -> bool:
    if drop.where is not None and not found.is_true(drop.where, element):
        return False
    if drop.value is None:
        return drop.where is not None
    return scalar_text(found.find(drop.value, element)) in drop.values
