"""Attributes and experiments of impressions, parsed once for each JSON text they came in. Pure.

Texts repeat: many impressions share one. So whatever depends on attributes and experiments alone is
worked out per text (an attribute id), not per impression.
"""

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Annotated, Final, TypeAlias, cast

import msgspec
import numpy as np
from msgspec import Meta
from msgspec.structs import astuple

from relevanced.metrics.lists import Integers

from ..events.attributes import as_fields, can_be_fields
from ..events.types import SURELY_SHORT, Labels, MappedImpression, PlainImpression
from ..experiments.specs import IMPRESSION, USER, Assignment
from ..plan import Plan, Values
from ..queries.plan import USER_ID
from .columns.texts import Spans, cut

REMEMBERED_TEXTS: Final = 50_000
"""Distinct attribute texts after which the table begins anew."""

NOT_PARSED: Final = -1
"""Attribute id of texts that only the careful reader can parse."""

_packed = msgspec.msgpack.Encoder().encode
"""Values as bytes that differ wherever the values do: True, 1 and 1.0 are equal as keys."""
_Text: TypeAlias = Annotated[str, Meta(max_length=SURELY_SHORT)]


@dataclass(frozen=True, eq=False)
class ParsedAttributes:
    """What the attributes and experiments of an impression mean to the plan."""

    values: Values
    surface_id: int
    assignment: Assignment
    attributes: Mapping[str, str | None]
    """The requested ones: those of groupings, of experiment units, of the surface, and of the users
    of queries."""
    experiments: Mapping[str, str]


@lru_cache(maxsize=8)
def _decoder_of(names: tuple[str, ...]) -> msgspec.json.Decoder[msgspec.Struct | None]:
    # Shared by all lanes: a dropped type stays in memory, between what a dropped lane freed, until
    # a full garbage collection.
    return msgspec.json.Decoder(as_fields(names, _Text | None, None) | None)


class AttributeTexts:
    """The parsed attribute texts of one lane."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._ids: dict[bytes, int] = {}
        """By the two texts, concatenated: it is clear where the first, an object or null, ends."""
        self._ids_by_values = defaultdict[Labels, dict[bytes, int]](dict)
        """Of mapped records: by the values, packed, of each table of a mapping."""
        self._table: list[ParsedAttributes] = []
        units = () if plan.tracking is None else plan.tracking.unit_attributes
        surface = () if plan.surfaces is None else (plan.surfaces.attribute,)
        queries = plan.queries
        users = () if queries is None or queries.user == USER_ID else (queries.user,)
        self._names = tuple(dict.fromkeys((*plan.attributes, *units, *surface, *users)))
        self._can_parse = can_be_fields(self._names)
        """Whether the decoder below can find these names; else every text is left to the careful
        reader, which can."""
        # other attributes are skipped, whatever their values are
        self._attributes = _decoder_of(self._names if self._can_parse else ())
        self._experiments = msgspec.json.Decoder(dict[_Text, _Text] | None)

    def table(self) -> Sequence[ParsedAttributes]:
        """The table that the ids of a batch index: `parse` appends to it, and the next call may
        begin a new one."""
        if len(self._table) >= REMEMBERED_TEXTS:
            # runs that were parsed before keep the old list, so their ids stay valid
            self._ids, self._table = {}, []
            self._ids_by_values.clear()
        return self._table

    def parse(
        self, impressions: Sequence[PlainImpression] | Sequence[MappedImpression]
    ) -> list[int]:
        """The attribute id of each impression: an index into the table, or NOT_PARSED where its
        texts are not plain."""
        if impressions and type(impressions[0]) is MappedImpression:
            return [self._mapped_id(one) for one in cast(Sequence[MappedImpression], impressions)]
        return self._raw_ids(cast(Sequence[PlainImpression], impressions))

    def _mapped_id(self, impression: MappedImpression) -> int:
        labels, values = impression.labels, impression.values
        ids = self._ids_by_values[labels]
        try:
            key = _packed(values)
        except OverflowError:
            return NOT_PARSED
        attribute_id = ids.get(key)
        if attribute_id is None:
            texts = labels.texts_of(values)
            if texts is None:
                return NOT_PARSED
            requested = {name: texts[0].get(name) for name in self._names}
            attribute_id = ids[key] = self._add(requested, texts[1])
        return attribute_id

    def _raw_ids(self, impressions: Sequence[PlainImpression]) -> list[int]:
        texts = [b"".join((event.attributes, event.experiments)) for event in impressions]
        id_of = self._ids.get
        ids = [id_of(text, NOT_PARSED) for text in texts]
        if NOT_PARSED in ids:
            for index in [n for n, attribute_id in enumerate(ids) if attribute_id == NOT_PARSED]:
                ids[index] = self._parse_one(texts[index], impressions[index])
        return ids

    def _parse_one(self, text: bytes, impression: PlainImpression) -> int:
        """The id of a text that is new, unless an earlier impression of the batch has it too."""
        if text in self._ids:
            return self._ids[text]
        if not self._can_parse:
            return NOT_PARSED
        try:
            attributes = self._attributes.decode(impression.attributes)
            experiments = self._experiments.decode(impression.experiments) or {}
        except (ValueError, RecursionError):
            return NOT_PARSED
        requested = dict(zip(self._names, () if attributes is None else astuple(attributes)))
        return self._ids.setdefault(text, self._add(requested, experiments))

    def _add(self, requested: Mapping[str, str | None], experiments: Mapping[str, str]) -> int:
        """Add what these attributes and experiments come to; returns its id."""
        plan, tracking = self._plan, self._plan.tracking
        parsed = ParsedAttributes(
            values=plan.values_of(requested, experiments),
            surface_id=plan.surface_id_of(requested),
            assignment=() if tracking is None else tracking.assignment(experiments),
            attributes=requested,
            experiments=experiments,
        )
        self._table.append(parsed)
        return len(self._table) - 1

    def units_of(
        self, user_ids: Sequence[str | None], ids: Spans, attribute_ids: Integers
    ) -> tuple[Sequence[str | None], ...]:
        """The unit (user, session, …) of each impression of these user ids, impression ids and
        attribute ids, (m,) of each: (m,) for each unit of the experiments that are tracked."""
        tracking = self._plan.tracking
        return (
            ()
            if tracking is None
            else tuple(self._unit_of(unit, user_ids, ids, attribute_ids) for unit in tracking.units)
        )

    def _unit_of(
        self, unit: str, user_ids: Sequence[str | None], ids: Spans, attribute_ids: Integers
    ) -> Sequence[str | None]:
        if unit == USER:
            return user_ids
        if unit == IMPRESSION:
            return [text.decode() for text in cut(*ids.joined())]
        return self._values_of(unit, attribute_ids)

    def _values_of(self, name: str, attribute_ids: Integers) -> Sequence[str | None]:
        table = self._table
        return [table[attribute_id].attributes.get(name) for attribute_id in attribute_ids.tolist()]

    def searchers(
        self, user_ids: Sequence[str | None], attribute_ids: Integers
    ) -> Sequence[str | None]:
        """Whom the tables of queries count as the user of each impression, (m,); nothing where
        there are none."""
        queries = self._plan.queries
        if queries is None:
            return ()
        by_user_id = queries.user == USER_ID
        return user_ids if by_user_id else self._values_of(queries.user, attribute_ids)


def once_per_text(
    attribute_ids: Integers, texts: int, value_of: Callable[[int, int], int]
) -> Integers:
    """The value of each impression's text, (n,): `value_of(attribute id, impressions that have it)`
    is called once for each text, in the order of their first impressions. `texts` is the length of
    the table."""
    counts, first = np.bincount(attribute_ids), np.zeros(texts, np.int64)
    first[attribute_ids[::-1]] = np.arange(len(attribute_ids))[::-1]  # the last assignment wins
    distinct = np.flatnonzero(counts)
    values = np.zeros(texts, np.int64)
    for attribute_id in distinct[np.argsort(first[distinct])].tolist():
        values[attribute_id] = value_of(attribute_id, int(counts[attribute_id]))
    return values[attribute_ids]
