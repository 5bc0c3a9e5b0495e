"""The impressions of a table, compiled. Pure.

A first page without judgements is a `MappedImpression`, others are events. Whatever the rules of
`impressions` would refuse, or leave a part out of, is odd.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias, final

import msgspec
from msgspec import Raw
from msgspec.structs import replace

from ...events import (
    BY_ID,
    NOT_MAPPED,
    Feedback,
    Impression,
    InvalidField,
    Labels,
    Limits,
    LogRecord,
    PlainFeedback,
    Skipped,
    identifiers,
    whole_number,
)
from ..event_tables import JOINED_BY, add_listed, grade_of
from ..expressions import (
    ALL_MEMBERS,
    EMPTY,
    Evaluation,
    Expression,
    ImpressionTable,
    Node,
    TimeFormat,
)
from ..functions import Surroundings
from ..getters import Get, Odd, Path, asks_record, getter
from ..shapes import (
    ANYTHING,
    ID,
    RANK,
    RAW_IDS,
    SCALAR,
    TEXT,
    TIME,
    Attributes,
    Role,
    Shape,
    Unsupported,
    dotted,
    steps_of,
)
from ..value_texts import ValueTexts
from .lists import (
    Column,
    FieldsRow,
    Milliseconds,
    by_rank,
    column,
    id_text,
    id_texts,
    listed,
    listed_ids,
    milliseconds,
    optional_text,
    row_of,
)


@final
class TableLabels:
    """The attributes and experiments of one table: which values are read, and the texts they come
    to. Texts are made once for each distinct combination of values, not for each impression."""

    def __init__(self, table: ImpressionTable, needed: Collection[str] | None) -> None:
        attributes, experiments = table.attributes or {}, table.experiments
        self._needed = needed
        self._names = [
            name
            for name in attributes
            if name != ALL_MEMBERS and (needed is None or name in needed)
        ]
        self._rest = attributes.get(ALL_MEMBERS)
        self._experiments = experiments
        self._variants = list(experiments.variants or ())
        for inner in (experiments.name, experiments.variant):
            if inner is not None and _has_call(inner.tree):
                raise Unsupported("a function in a list of experiments")
        self.fields: list[tuple[Expression, Role]] = [
            *((attributes[name], SCALAR) for name in self._names),
            *((one, SCALAR) for one in (experiments.variants or {}).values()),
            *(
                (one, ANYTHING)
                for one in (self._rest, experiments.map, experiments.list)
                if one is not None
            ),
        ]
        """What is read: the order of `values`."""

    def texts_of(self, values: tuple[Any, ...]) -> tuple[dict[str, str], dict[str, str]] | None:
        """Return the attributes and the experiments of these values; None where one must be left
        out."""
        attributes, experiments, rest = ValueTexts(), ValueTexts(), iter(values)
        for name in self._names:
            attributes.add(name, next(rest))
        for name in self._variants:
            experiments.add(name, next(rest))
        if self._rest is not None:
            attributes.add_scalars(self._needed_of(next(rest)))
        if self._experiments.map is not None:
            experiments.add_members(next(rest))
        if self._experiments.list is not None:
            found = Evaluation(Surroundings(None), 0)
            try:
                add_listed(experiments, self._experiments, found, next(rest))
            except InvalidField:
                return None
        if attributes.dropped or experiments.dropped:
            return None
        return attributes.texts, experiments.texts

    def _needed_of(self, members: Any) -> Any:
        if isinstance(members, dict) and self._needed is not None:
            return {name: members[name] for name in self._needed if name in members}
        return members


def _has_call(node: Node) -> bool:
    return node["type"] == "function_expression" or any(
        _has_call(child) for child in node["children"] if isinstance(child, dict)
    )


class MappedImpression(msgspec.Struct, gc=False):
    """A plain impression as a mapping reads it."""

    impression_id: str
    items: Raw | bytes
    """JSON that need not be a list of ids."""
    time_ms: int
    values: tuple[Any, ...]
    """Its attributes and experiments, as `labels` names them."""
    labels: Labels
    user_id: str | None = None
    query: str | None = None
    visitor: str | None = None


Outcome: TypeAlias = MappedImpression | PlainFeedback | Impression | Feedback | Skipped

UNMAPPED: Final = Skipped(NOT_MAPPED)
NO_LIST: Final = Skipped("no_list")
NO_ITEM: Final = Skipped("no_item")
NO_SEARCH: Final = Skipped("no_query_id")


_NULL: Final = b"null"
_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder().decode


@dataclass(frozen=True)
class Positions:
    """Where the fields of an impression stand in its row: the parts of its id first."""

    time: int
    user: int | None
    visitor: int | None
    """None where visitors are not needed."""
    page: int | None
    """What says where the page begins: `first_rank`, or the page and its size."""
    labels: int


@dataclass(frozen=True)
class CompiledImpressions:
    """Reads the impressions of one table from instances."""

    table: ImpressionTable
    limits: Limits
    labels: TableLabels
    row: FieldsRow
    at: Positions
    items: Get
    """The list: JSON text, or elements; None where there is none."""
    columns: "InstanceColumns"
    ms: Milliseconds
    at_once: bool
    """Whether elements of several records may be read at once."""
    query: Get | None = None
    """What was searched for; None where it is not needed."""

    def read(self, instance: Any, record: LogRecord) -> Outcome:
        """Return the impression. Raises Odd, or a ValueError, where the interpreter must read
        it."""
        row, at = self.row.one(instance, record), self.at
        impression_id = event_id(row[: at.time])
        if impression_id is None:
            return NO_SEARCH
        time_ms = self.ms.of(row[at.time])
        user_id = None if at.user is None else row[at.user]
        if type(user_id) is not str or not user_id:
            user_id = optional_text(user_id)
        visitor = None if at.visitor is None else optional_text(row[at.visitor]) or user_id
        first_rank = 1 if at.page is None else self._first_rank(row[at.page :])
        found = self.items(instance, record)
        if type(found) is Raw and bytes(found) == _NULL:
            found = None
        if found is None:
            if self.table.no_items != EMPTY:
                return NO_LIST
            found = ()
        grades, teams = dict[str, float](), tuple[str | None, ...]()
        if type(found) is not Raw or first_rank > 1:
            found, grades, teams = self._elements(found, first_rank, record)
        values, query = tuple(row[at.labels :]), None
        if self.query is not None:
            query = _text_or_none(self.query(instance, record))
        if first_rank > 1 or grades or teams:
            event = self._event(
                (impression_id, time_ms, found, first_rank), values, grades, user_id, teams
            )
            if query is not None or visitor is not None:
                event = replace(event, query=query, visitor=visitor)
            return event
        items = found if type(found) is Raw else _encode(found)
        return MappedImpression(
            impression_id, items, time_ms, values, self.labels, user_id, query, visitor
        )

    def _first_rank(self, page: Sequence[Any]) -> int:
        if self.table.first_rank is not None:
            return _whole(page[0], 1, 1)
        return _page_rank(page[0], page[1], self.table.page_base)

    def _event(
        self,
        begin: tuple[str, int, Sequence[str], int],
        values: tuple[Any, ...],
        grades: dict[str, float],
        user_id: str | None,
        teams: tuple[str | None, ...],
    ) -> Impression:
        """An impression that is not plain."""
        texts, (impression_id, time_ms, ids, first_rank) = self.labels.texts_of(values), begin
        if texts is None:
            raise Odd
        return Impression(
            impression_id, time_ms, tuple(ids), first_rank, *texts, grades, user_id, teams
        )

    def _elements(
        self, found: Any, first_rank: int, record: LogRecord
    ) -> tuple[Sequence[str], dict[str, float], tuple[str | None, ...]]:
        columns, shown = self.columns, max(0, self.limits.depth - first_rank + 1)
        if type(found) is Raw:
            return identifiers("", _decode(found))[:shown], {}, ()
        if columns.rank is not None and len(found) > 1:
            order = by_rank(columns.rank(found, record))
            if order is not None:
                found = [found[index] for index in order]
        if len(found) > shown:
            found = found[:shown]
        ids = id_texts(found if columns.item is None else columns.item(found, record))
        grades = dict[str, float]()
        if columns.grade is not None:
            for item, grade in zip(ids, columns.grade(found, record), strict=True):
                if grade is not None:
                    grades[item] = grade_of("", grade, self.limits.max_grade)
        teams = tuple[str | None, ...]()
        if columns.team is not None:
            teams = tuple(map(optional_text, columns.team(found, record)))
        return ids, grades, teams if any(teams) else ()


@dataclass(frozen=True)
class InstanceColumns:
    """The values of elements; None where the table has no expression for them."""

    item: Column | None = None
    rank: Column | None = None
    grade: Column | None = None
    team: Column | None = None


def compiled_impressions(
    table: ImpressionTable,
    shape: Shape,
    attributes: Attributes,
    written: TimeFormat,
    limits: Limits,
) -> CompiledImpressions:
    """Return what reads the impressions of a table from instances of a shape. Raises
    Unsupported."""
    labels = TableLabels(table, limits.attributes)
    fields: list[tuple[Expression, Role]] = [*((part, ID) for part in table.id), (table.time, TIME)]
    user, page = table.user or table.visitor, list[Expression]()
    users = [] if user is None else [user]
    seen_by = None if limits.join == BY_ID else table.visitor or table.user
    if seen_by is not None and user is not None and seen_by.text != user.text:
        users.append(seen_by)
    if table.first_rank is not None:
        page = [table.first_rank]
    elif table.page is not None and table.page_size is not None:
        page = [table.page, table.page_size]
    time, before = len(table.id), len(table.id) + 1 + len(users)
    at = Positions(
        time=time,
        user=time + 1 if users else None,
        visitor=None if seen_by is None else time + len(users),
        page=before if page else None,
        labels=before + len(page),
    )
    fields += [*((one, ID) for one in users), *((one, RANK) for one in page), *labels.fields]
    row = row_of(fields, shape, attributes)
    items, columns = _lists(table, shape, attributes)
    query = None
    if limits.queries and table.query is not None:
        query = getter(table.query.tree, shape, attributes, TEXT)
    ms = milliseconds(written)
    at_once = not any(map(asks_record, (table.item, table.rank, table.grade, table.team)))
    return CompiledImpressions(table, limits, labels, row, at, items, columns, ms, at_once, query)


def _lists(
    table: ImpressionTable, shape: Shape, attributes: Attributes
) -> tuple[Get, InstanceColumns]:
    of_elements = (table.item, table.rank, table.grade, table.team)
    if all(one is None for one in of_elements):
        steps = steps_of(table.items.tree)
        found = None if steps is None else dotted(steps, shape)
        if found is None:
            return listed_ids(table.items.tree, shape, attributes), InstanceColumns()
        found[1].as_role(RAW_IDS)
        return Path(attributes(found[0])), InstanceColumns()
    items, scopes = listed(table.items.tree, shape, attributes)
    roles = (ID, RANK, SCALAR, ID)
    if table.item is None:
        for scope in scopes:
            if isinstance(scope, Shape):
                scope.as_role(ID)
    return items, InstanceColumns(
        *(
            None if one is None else column(one, scopes, attributes, role)
            for one, role in zip(of_elements, roles, strict=True)
        )
    )


def event_id(parts: Sequence[Any]) -> str | None:
    """Return an id of its parts; None without one, and where one is null or empty. Raises Odd where
    one before that is no id."""
    texts = list[str]()
    for part in parts:
        if part is None or part == "":
            return None
        texts.append(id_text(part))
    if len(texts) > 1:
        return id_text(JOINED_BY.join(texts))
    return texts[0] if texts else None


def _text_or_none(value: Any) -> str | None:
    """Return a text. Raises Odd for what is none: the interpreter leaves it out."""
    if value is None or type(value) is str:
        return value
    raise Odd


def _whole(value: Any, default: int, least: int) -> int:
    number = default if value is None else whole_number(value)
    if number is None or number < least:
        raise Odd
    return number


def _page_rank(page: Any, size: Any, base: int) -> int:
    number = _whole(page, base, base)
    if number == base:
        return 1
    first_rank = (number - base) * _whole(size, 0, 1) + 1
    if first_rank >= 2**63:
        raise Odd
    return first_rank
