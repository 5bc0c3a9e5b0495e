"""The impression that a table makes of an element of a record. Pure."""

from collections.abc import Collection
from typing import Final

from ..events.attributes import Trimmed
from ..events.fields import InvalidField, grade_value, identifier, refused
from ..events.types import Impression, Limits
from .evaluation import Evaluation
from .expressions import Expression
from .tables import ALL_MEMBERS, EMPTY, Experiments, ImpressionTable, TimeFormat
from .times import time_ms
from .values import Texts, elements_of, id_of, missing, optional_id, rank_of, whole_number

MOST_ITEMS: Final = 50_000
"""Most elements of one list."""
_LAST: Final = 2**63


def impression_of(
    table: ImpressionTable, found: Evaluation, element: object, written: TimeFormat, limits: Limits
) -> Impression | Trimmed:
    """Return the impression. Raises InvalidField: also with a reason to skip it."""
    impression_id = id_of(found, table.id, element)
    if impression_id is None:
        raise missing(table.id[0])
    shown_ms = _time(table.time, found, element, written)
    first_rank = _first_rank(table, found, element)
    elements = _in_rank_order(table, found, _elements(table, found, element))
    shown = elements[: max(0, limits.depth - first_rank + 1)]
    items = tuple(_item(table, found, one) for one in shown)
    texts = _attributes(table, found, element, limits.attributes)
    experiments = _experiments(table.experiments, found, element)
    dropped = [*texts.dropped, *experiments.dropped]
    impression = Impression(
        impression_id=impression_id,
        time_ms=shown_ms,
        items=items,
        first_rank=first_rank,
        attributes=texts.texts,
        experiments=experiments.texts,
        grades=_grades(table.grade, found, zip(items, shown, strict=True), limits.max_grade),
        user_id=optional_id(found, table.user or table.visitor, element),
        teams=_teams(table.team, found, shown),
        query=_query(table.query, found, element, dropped) if limits.queries else None,
    )
    return Trimmed(impression, tuple(dropped)) if dropped else impression


def _time(time: Expression, found: Evaluation, element: object, written: TimeFormat) -> int:
    value = found.find(time, element)
    if value is None:
        raise missing(time)
    return time_ms(value, time.name, written)


def _elements(table: ImpressionTable, found: Evaluation, element: object) -> list[object]:
    value = found.find(table.items, element)
    if value is None:
        if table.no_items == EMPTY:
            return []
        raise InvalidField("no_list", f"{table.items.name}: there is none")
    return elements_of(value, table.items, MOST_ITEMS)


def _in_rank_order(
    table: ImpressionTable, found: Evaluation, elements: list[object]
) -> list[object]:
    """The elements in the order of their ranks; those without one last, in their own order."""
    if table.rank is None:
        return elements
    ranks = [rank_of(found, table.rank, one, table.rank_base) or _LAST for one in elements]
    order = sorted(range(len(elements)), key=ranks.__getitem__)
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
                grades[item] = grade_value(grade.name, value, most)
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
) -> Texts:
    texts = Texts()
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


def _query(
    query: Expression | None, found: Evaluation, element: object, dropped: list[str]
) -> str | None:
    """What was searched for. What is no text is left out: with or without it, the record counts."""
    if query is None:
        return None
    try:
        value = found.beside.find(query, element)
    except InvalidField:
        value = False
    if value is None or isinstance(value, str):
        return value
    dropped.append("bad_query")
    return None


def _experiments(experiments: Experiments, found: Evaluation, element: object) -> Texts:
    texts = Texts()
    for name, variant in (experiments.variants or {}).items():
        texts.add(name, found.find(variant, element))
    if experiments.map is not None:
        texts.add_members(found.find(experiments.map, element))
    if experiments.list is not None:
        add_listed(texts, experiments, found, found.find(experiments.list, element))
    return texts


def add_listed(texts: Texts, experiments: Experiments, found: Evaluation, listed: object) -> None:
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
