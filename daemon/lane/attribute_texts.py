"""Attributes and experiments of impressions, parsed once for each JSON text they came in, and the
attributes that are derived from their queries. Pure.

Texts repeat: many impressions share one. So whatever depends on attributes and experiments alone is
worked out per text (an attribute id), not per impression.

Attributes are derived by the words of a query, by files of classes, and by patterns. Words and
files are cheaper than a memory of texts: of a million queries by Zipf's law every third is new, and
all of them do not fit into the processor's cache. Remembered is what takes long: what patterns
match, and the keys of texts that are not ASCII.
"""

import json
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import filterfalse
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
from ..queries import NO_QUERY, USER_ID, Derivation, key_steps, keys_of, text_parts
from .columns.texts import Spans, cut

MOST_REMEMBERED: Final = 4_000_000
"""Characters of remembered texts, each with the cost of an entry, beyond which all are
forgotten."""
STEP_CHARACTERS: Final = 512
"""So many are matched in one step: of the keys that take longest, four."""
ENTRY_CHARACTERS: Final = 40
"""What an entry costs beside its text."""

DerivedValues: TypeAlias = tuple[str | None, ...]
"""Of the derived attributes, in the order of their derivations."""
Derived: TypeAlias = tuple[bytes, dict[str, str | None]]
"""A text that is the same for the same values, a JSON array; and the values by attribute."""
NOTHING_DERIVED: Final[Derived] = b"", {}
"""Where there are no derivations."""
Classes: TypeAlias = Mapping[str, str]
"""Key of a query → its class, of one file."""
Files: TypeAlias = tuple[Sequence[int], Sequence[Classes | None]]
"""The starts of the files of one derivation in ms, ascending, and one file more than starts: the
first is none, before all of them."""


class DerivedAttributes:
    """What the queries of one lane mean to the derivations."""

    def __init__(self, derivations: Sequence[Derivation]) -> None:
        self.names = tuple(derivation.attribute for derivation in derivations)
        self._derivations = tuple(derivations)
        self._by_patterns = tuple(one for one in derivations if one.patterns)
        self._needs_keys = len(self._by_patterns) < len(self._derivations)
        self._files: dict[str, Files] = {
            one.attribute: ((), (None,)) for one in derivations if one.by_files
        }
        self._matched: dict[str, dict[str | None, str | None]] = {}
        """By attribute: text → the value of the pattern that matches its key."""
        self._keys: dict[str | None, str] = {}
        """Text → its key, of texts that are not ASCII and those that they came with."""
        self._by_values: dict[DerivedValues, Derived] = {}
        self._characters = 0
        self._forget()

    def use_files(
        self, timelines: Mapping[str, Timeline], classes: Mapping[IndexEntry, Classes]
    ) -> None:
        """Derive by these files from now on. `timelines` has that of each attribute by files,
        `classes` every file of them."""
        for attribute in self._files:
            entries = timelines[attribute].entries
            files = [classes[entry] for entry in entries]
            self._files[attribute] = [entry.start_ms for entry in entries], [None, *files]

    def begin(self) -> None:
        """Begin a batch: nothing that `steps` works out from now on is forgotten meanwhile."""
        if self._characters > MOST_REMEMBERED:
            self._forget()

    def steps(self, queries: Iterable[str | None]) -> Generator[None, None, None]:
        """Work out what takes long of what queries are derived to, in steps: the slowest patterns
        that a configuration may have take some ms for a text that is made for it."""
        texts = list(queries)
        if self._needs_keys and not _are_ascii(texts):
            new = _new(texts, self._keys)
            keys = yield from key_steps(new)
            self._keys.update(zip(new, keys, strict=True))
            self._count(new)
        if not self._by_patterns:
            return
        new = _new(texts, self._matched[self._by_patterns[0].attribute])
        keys = yield from key_steps(new)
        self._count(new)
        for part in text_parts(keys, STEP_CHARACTERS):
            for one in self._by_patterns:
                values = map(one.value_of, keys[part])
                self._matched[one.attribute].update(zip(new[part], values, strict=True))
            yield

    def of_all(self, queries: Sequence[str | None], times_ms: Sequence[int]) -> list[Derived]:
        """What each query is derived to for an impression of its time, (n,) of each; None is no
        query."""
        try:
            return self._of_all(queries, times_ms)
        except KeyError:  # a text that `steps` did not have
            self.begin()
            for _ in self.steps(queries):
                pass
            return self._of_all(queries, times_ms)

    def values_of(self, query: str | None, time_ms: int) -> Mapping[str, str | None]:
        """The derived attributes of an impression of this query and time."""
        return self.of_all((query,), (time_ms,))[0][1]

    def _of_all(self, queries: Sequence[str | None], times_ms: Sequence[int]) -> list[Derived]:
        """The same. Raises KeyError for a text that is not remembered and must be."""
        keys = self._keys_of(queries) if self._needs_keys else ()
        columns: list[Sequence[str | None]] = []
        for one in self._derivations:
            if one.patterns:
                columns.append(list(map(self._matched[one.attribute].__getitem__, queries)))
            elif one.by_files:
                columns.append(self._classes(one, keys, times_ms))
            else:
                columns.append(one.lengths_of(keys))
        known = self._by_values.get
        return [known(values) or self._add(values) for values in zip(*columns, strict=True)]

    def _keys_of(self, queries: Sequence[str | None]) -> list[str]:
        if _are_ascii(queries):
            return keys_of([query or NO_QUERY for query in queries])
        return list(map(self._keys.__getitem__, queries))

    def _classes(
        self, one: Derivation, keys: Sequence[str], times_ms: Sequence[int]
    ) -> list[str | None]:
        """The class of each key in the file in force at its time."""
        starts_ms, files = self._files[one.attribute]
        first = bisect_right(starts_ms, min(times_ms, default=0))
        if first == bisect_right(starts_ms, max(times_ms, default=0)):
            return one.classes_of(keys, files[first])
        in_force = [files[bisect_right(starts_ms, time_ms)] for time_ms in times_ms]
        pairs = zip(keys, in_force, strict=True)
        return [one.classes_of((key,), classes)[0] for key, classes in pairs]

    def _add(self, values: DerivedValues) -> Derived:
        """What values come to that are met for the first time: a few are shared by many texts."""
        mark = json.dumps(values).encode()
        derived = self._by_values[values] = mark, dict(zip(self.names, values, strict=True))
        self._characters += ENTRY_CHARACTERS
        return derived

    def _count(self, new: Sequence[str]) -> None:
        self._characters += sum(map(len, new)) + ENTRY_CHARACTERS * len(new)

    def _forget(self) -> None:
        self._matched = {one.attribute: {None: None} for one in self._by_patterns}
        self._keys, self._by_values, self._characters = {None: NO_QUERY}, {}, 0


def _are_ascii(queries: Iterable[str | None]) -> bool:
    return all(map(str.isascii, filter(None, queries)))


def _new(queries: Iterable[str | None], known: Mapping[str | None, object]) -> list[str]:
    """The distinct texts that are not known."""
    new = dict.fromkeys(filterfalse(known.__contains__, queries))
    return [query for query in new if query is not None]


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
        if len(self._table) >= REMEMBERED_TEXTS:
            # runs that were parsed before keep the old list, so their ids stay valid
            self._ids, self._table = {}, []
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
            experiments = without_empty(self._experiments.decode(impression.experiments) or {})
        except (ValueError, RecursionError):
            return NOT_PARSED
        requested: dict[str, str | None]
        texts = () if attributes is None else astuple(attributes)
        requested = {name: text or None for name, text in zip(self._names, texts)}
        return self._ids.setdefault(text, self._add(requested | derived[1], experiments))

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
