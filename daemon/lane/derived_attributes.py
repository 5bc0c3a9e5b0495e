"""Attributes that are derived from the queries of impressions. Pure.

They are derived by the words of a query, by files of classes, and by patterns. Words and files are
cheaper than a memory of texts: of a million queries by Zipf's law every third is new, and all of
them do not fit into the processor's cache. Remembered is what takes long: what patterns match, and
the keys of texts that are not ASCII.
"""

import json
from bisect import bisect_right
from collections.abc import Generator, Iterable, Mapping, Sequence
from itertools import filterfalse
from typing import Final, TypeAlias

from ..judgements import IndexEntry, Timeline
from ..queries import NO_QUERY, Derivation, key_steps, keys_of, text_parts

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
