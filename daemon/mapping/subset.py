"""Which expressions of a source are outside of the compiled subset. Pure."""

from collections.abc import Callable, Iterator

from ..events.types import Limits
from .compiled import CLOUDEVENTS_READ_SLOWLY, reason_to_interpret
from .each import each_of
from .expressions import Expression
from .getters import condition, getter
from .lists import listed, listed_ids
from .paths import fast
from .shapes import ANYTHING, SCALAR, Shape, Unsupported
from .tables import FeedbackTable, ImpressionTable, Source

_Compile = Callable[[Expression], object]


def outside_of(source: Source) -> Iterator[tuple[str, str]]:
    """Yield the key of each expression that is outside, and which part of it is, for people. One of
    them is enough for the interpreter to read all records of the source."""
    if source.reader is not None:
        return
    found = False
    for expression, compile_one in _expressions(source):
        try:
            compile_one(expression)
        except Unsupported as error:
            found = True
            yield expression.key, str(error)
    reason = None if found else reason_to_interpret(source, Limits())
    if reason is not None:
        key = f"{source.key}.envelope" if reason == CLOUDEVENTS_READ_SLOWLY else source.key
        yield key, reason


def _expressions(source: Source) -> Iterator[tuple[Expression, _Compile]]:
    found: list[tuple[Expression | None, _Compile]] = [(source.each, each_of)]
    for shown in source.impressions:
        found += _of_impressions(shown)
    for reaction in source.feedback:
        found += _of_feedback(reaction)
    for drop in source.drops:
        found += [(drop.where, _condition), (drop.value, _value)]
    for expression, compile_one in found:
        if expression is not None:
            yield expression, compile_one


def _of_impressions(table: ImpressionTable) -> list[tuple[Expression | None, _Compile]]:
    tests, own = table.experiments, (table.item, table.rank, table.grade, table.team)
    values = [*table.id, table.time, table.visitor, table.user, *(tests.variants or {}).values()]
    values += [table.first_rank, table.page, table.page_size, *own]
    return [
        (table.where, _condition),
        (table.items, _ids if all(one is None for one in own) else _list),
        *((one, _value) for one in values),
        *((one, _anything) for one in (table.attributes or {}).values()),
        (tests.map, _anything),
        (tests.list, _anything),
    ]


def _of_feedback(table: FeedbackTable) -> list[tuple[Expression | None, _Compile]]:
    values = [*(table.id or ()), table.time, table.kind, table.item, table.item_id, table.rank]
    return [
        (table.where, _condition),
        (table.items, _list),
        *((one, _value) for one in (*values, table.grade)),
    ]


def _condition(expression: Expression) -> object:
    return condition(expression.tree, Shape(), fast)


def _value(expression: Expression) -> object:
    return getter(expression.tree, Shape(), fast, SCALAR)


def _anything(expression: Expression) -> object:
    return getter(expression.tree, Shape(), fast, ANYTHING)


def _list(expression: Expression) -> object:
    return listed(expression.tree, Shape(), fast)


def _ids(expression: Expression) -> object:
    return listed_ids(expression.tree, Shape(), fast)
