"""Attributes and experiments of impressions, parsed once for each JSON text they came in. Pure.

Texts repeat: many impressions share one. So whatever depends on attributes and experiments alone is
worked out per text (an attribute id), not per impression.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Annotated, Any, Final, TypeAlias

import msgspec
import numpy as np
from msgspec import Meta
from msgspec.structs import astuple

from relevanced.metrics import Integers

from ..events import (
    SURELY_SHORT,
    Impression,
    Impressions,
    Labels,
    PlainImpression,
    as_fields,
    can_be_fields,
    without_empty,
)
from ..experiments import IMPRESSION, USER, Assignment
from ..judgements import IndexEntry, Timeline
from ..plan import Plan, Values
from ..queries import USER_ID
from .columns.texts import Spans, cut
from .derived_attributes import NOTHING_DERIVED, Classes, Derived, DerivedAttributes

REMEMBERED_TEXTS: Final = 50_000
"""Distinct attribute texts after which the table begins anew."""

MOST_KEY_BYTES: Final = 4096
"""Longer values of a mapping, such as whole objects, are not remembered."""
NOT_PARSED: Final = -1
"""Attribute id of texts that only the careful reader can parse."""

_packed = msgspec.msgpack.Encoder().encode
"""Values as bytes that differ wherever the values do: True, 1 and 1.0 are equal as keys."""
_TOO_LARGE: Final = b""
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
        """By the two texts, concatenated: it is clear where the first, an object or null, ends.
        Where attributes are derived, an array of these stands before them, and before values."""
        self._ids_by_needed: dict[tuple[object, ...], int] = {}
        """By what these texts have of the requested attributes, with the experiments' text: other
        attributes make a text of each impression, and come to nothing."""
        self._ids_by_values = defaultdict[Labels, dict[bytes, int]](dict)
        """Of mapped records: by the values, packed, of each table of a mapping."""
        self._table: list[ParsedAttributes] = []
        units = () if plan.tracking is None else plan.tracking.unit_attributes
        surface = () if plan.surfaces is None else (plan.surfaces.attribute,)
        queries = plan.queries
        users = () if queries is None or queries.user == USER_ID else (queries.user,)
        derived = plan.derivations
        self._derived = DerivedAttributes(derived) if derived else None
        names = dict.fromkeys((*plan.attributes, *units, *surface, *users))
        if self._derived is not None:
            names = dict.fromkeys(name for name in names if name not in self._derived.names)
        self._names = tuple(names)
        self._can_parse = can_be_fields(self._names)
        """Whether the decoder below can find these names; else every text is left to the careful
        reader, which can."""
        # other attributes are skipped, whatever their values are
        self._attributes = _decoder_of(self._names if self._can_parse else ())
        self._experiments = msgspec.json.Decoder(dict[_Text, _Text] | None)

    def use_files(
        self, timelines: Mapping[str, Timeline], classes: Mapping[IndexEntry, Classes]
    ) -> None:
        """Derive by these files from now on: see `DerivedAttributes.use_files`."""
        if self._derived is not None:
            self._derived.use_files(timelines, classes)

    def table(self) -> Sequence[ParsedAttributes]:
        """The table that the ids of a batch index: `parse` appends to it, and the next call may
        begin a new one."""
        if max(len(self._table), len(self._ids)) >= REMEMBERED_TEXTS:
            # runs that were parsed before keep the old list, so their ids stay valid
            self._ids, self._ids_by_needed, self._table = {}, {}, []
            self._ids_by_values.clear()
        if self._derived is not None:
            self._derived.begin()
        return self._table

    def derive(self, queries: Iterable[str | None]) -> Iterator[None]:
        """Work out what these queries are derived to, in steps, so that `parse` and `attributes_of`
        need no time for it. For what follows `table`."""
        if self._derived is not None:
            yield from self._derived.steps(queries)

    def parse(self, impressions: Impressions, times_ms: Sequence[int]) -> list[int]:
        """The attribute id of each impression, (m,): an index into the table, or NOT_PARSED where
        its texts are not plain. `times_ms` are their times, (m,)."""
        derived: Sequence[Derived] | None = None
        if self._derived is not None:
            queries = impressions.queries or (None,) * len(impressions.ids)
            derived = self._derived.of_all(queries, times_ms)
        if impressions.labels is None:
            return self._raw_ids(impressions.raw, derived)
        return self._mapped_ids(impressions.values, impressions.labels, derived)

    def _mapped_ids(
        self,
        values: Sequence[tuple[Any, ...]],
        labels: Labels,
        derived: Sequence[Derived] | None,
    ) -> list[int]:
        try:
            keys = list(map(_packed, values))
        except OverflowError:
            keys = list(map(_packed_if_small, values))
        if derived is not None:
            marked = zip(derived, keys, strict=True)
            keys = [_TOO_LARGE if key == _TOO_LARGE else mark + key for (mark, _), key in marked]
        by_key = self._ids_by_values[labels]
        id_of = by_key.get
        ids = [id_of(key, NOT_PARSED) for key in keys]
        if NOT_PARSED in ids:
            for index in [n for n, attribute_id in enumerate(ids) if attribute_id == NOT_PARSED]:
                more = NOTHING_DERIVED if derived is None else derived[index]
                ids[index] = self._mapped_id(keys[index], values[index], labels, more)
        return ids

    def _mapped_id(
        self, key: bytes, values: tuple[Any, ...], labels: Labels, derived: Derived
    ) -> int:
        """The id of values that are new, unless an earlier impression of the batch has them too."""
        by_key = self._ids_by_values[labels]
        if key in by_key:
            return by_key[key]
        if key == _TOO_LARGE:
            return NOT_PARSED
        texts = labels.texts_of(values)
        if texts is None:
            return NOT_PARSED
        requested = {name: texts[0].get(name) for name in self._names}
        attribute_id = self._add(requested | derived[1], texts[1])
        if len(key) <= MOST_KEY_BYTES:
            by_key[key] = attribute_id
        return attribute_id

    def _raw_ids(
        self, impressions: Sequence[PlainImpression], derived: Sequence[Derived] | None
    ) -> list[int]:
        if derived is None:
            texts = [b"".join((event.attributes, event.experiments)) for event in impressions]
        else:
            texts = [
                b"".join((mark, event.attributes, event.experiments))
                for (mark, _), event in zip(derived, impressions, strict=True)
            ]
        id_of = self._ids.get
        ids = [id_of(text, NOT_PARSED) for text in texts]
        if NOT_PARSED in ids:
            for index in [n for n, attribute_id in enumerate(ids) if attribute_id == NOT_PARSED]:
                more = NOTHING_DERIVED if derived is None else derived[index]
                ids[index] = self._parse_one(texts[index], impressions[index], more)
        return ids

    def _parse_one(self, text: bytes, impression: PlainImpression, derived: Derived) -> int:
        """The id of a text that is new, unless an earlier impression of the batch has it too."""
        if text in self._ids:
            return self._ids[text]
        if not self._can_parse:
            return NOT_PARSED
        try:
            attributes = self._attributes.decode(impression.attributes)
            texts = () if attributes is None else astuple(attributes)
            needed = derived[0], bytes(impression.experiments), texts
            if needed in self._ids_by_needed:
                return self._ids.setdefault(text, self._ids_by_needed[needed])
            experiments = without_empty(self._experiments.decode(impression.experiments) or {})
        except (ValueError, RecursionError):
            return NOT_PARSED
        requested: dict[str, str | None]
        requested = {name: value or None for name, value in zip(self._names, texts)}
        attribute_id = self._ids_by_needed[needed] = self._add(requested | derived[1], experiments)
        return self._ids.setdefault(text, attribute_id)

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

    def attributes_of(self, event: Impression) -> Mapping[str, str | None]:
        """The attributes of one impression, with those that are derived."""
        if self._derived is None:
            return event.attributes
        return {**event.attributes, **self._derived.values_of(event.query, event.time_ms)}

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


def _packed_if_small(values: tuple[Any, ...]) -> bytes:
    try:
        return _packed(values)
    except OverflowError:
        return _TOO_LARGE


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
