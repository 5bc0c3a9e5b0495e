"""The derived attributes of impressions, worked out once for each text of a query. Pure."""

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from ..queries.derivation import Derivation
from ..queries.keys import NO_QUERY, keys_of

MOST_REMEMBERED: Final = 4_000_000
"""Characters of remembered texts, each with the cost of an entry, beyond which all are
forgotten."""
ENTRY_CHARACTERS: Final = 40
"""What an entry costs beside its text."""

Values = tuple[str | None, ...]
"""Of the derived attributes, in the order of their derivations."""
Derived = tuple[bytes, dict[str, str | None]]
"""A text that is the same for the same values, a JSON array; and the values by attribute."""
NOTHING_DERIVED: Final[Derived] = b"", {}
"""Where there are no derivations."""


class DerivedAttributes:
    """What the queries of one lane mean to the derivations. A text is normalised and matched when
    it is met for the first time."""

    def __init__(self, derivations: Sequence[Derivation]) -> None:
        self.names = tuple(derivation.attribute for derivation in derivations)
        self._values_of = [derivation.value_of for derivation in derivations]
        self._by_text: dict[str | None, Derived] = {}
        self._by_values: dict[Values, Derived] = {}
        self._characters = 0
        self._forget()

    def of_all(self, queries: Sequence[str | None]) -> list[Derived]:
        """What each query is derived to, (n,); None is no query."""
        by_text = self._by_text
        new = [query for query in set(queries).difference(by_text) if query is not None]
        if new:
            if self._characters > MOST_REMEMBERED:
                self._forget()
                return self.of_all(queries)
            self._characters += sum(map(len, new)) + ENTRY_CHARACTERS * len(new)
            by_text.update(zip(new, self._derived(keys_of(new)), strict=True))
        return [by_text[query] for query in queries]

    def values_of(self, query: str | None) -> Mapping[str, str | None]:
        """The derived attributes of an impression of this query."""
        return self.of_all((query,))[0][1]

    def _forget(self) -> None:
        self._by_text, self._by_values, self._characters = {}, {}, 0
        (self._by_text[None],) = self._derived([NO_QUERY])

    def _derived(self, keys: Sequence[str]) -> Iterator[Derived]:
        """What each key is derived to: a few values are shared by many keys."""
        columns = [[value_of(key) for key in keys] for value_of in self._values_of]
        for values in zip(*columns, strict=True):
            derived = self._by_values.get(values)
            if derived is None:
                mark = json.dumps(values).encode()
                derived = self._by_values[values] = mark, dict(zip(self.names, values, strict=True))
            yield derived
