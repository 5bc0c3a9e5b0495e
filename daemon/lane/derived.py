"""The derived attributes of impressions, worked out once for each text of a query. Pure."""

import json
from collections.abc import Mapping, Sequence
from typing import Final

from ..queries.derivation import Derivation
from ..queries.keys import keys_of

MOST_REMEMBERED: Final = 4_000_000
"""Characters of remembered texts, each with the cost of an entry, beyond which all are
forgotten."""
ENTRY_CHARACTERS: Final = 40
"""What an entry costs beside its text."""

Derived = tuple[bytes, Mapping[str, str | None]]
"""The values by attribute, and a text that is the same for the same values, a JSON array."""


class DerivedAttributes:
    """What the queries of one lane mean to the derivations. A text is normalised and matched when
    it is met for the first time."""

    def __init__(self, derivations: Sequence[Derivation]) -> None:
        self._derivations = derivations
        self.names = frozenset(derivation.attribute for derivation in derivations)
        self._by_text: dict[str | None, Derived] = {}
        self._characters = 0
        self._of_mark: dict[bytes, Derived] = {}
        self._forget()

    def _forget(self) -> None:
        self._by_text, self._of_mark, self._characters = {None: self._derived("")}, {}, 0

    def of_all(self, queries: Sequence[str | None]) -> list[Derived]:
        """What each query is derived to, (n,); None is no query."""
        by_text = self._by_text
        new = [query for query in set(queries).difference(by_text) if query is not None]
        if new:
            if self._characters > MOST_REMEMBERED:
                self._forget()
                return self.of_all(queries)
            for text, key in zip(new, keys_of(new), strict=True):
                by_text[text] = self._derived(key)
                self._characters += len(text) + ENTRY_CHARACTERS
        return [by_text[query] for query in queries]

    def values_of(self, query: str | None) -> Mapping[str, str | None]:
        """The derived attributes of an impression of this query."""
        return self.of_all((query,))[0][1]

    def _derived(self, key: str) -> Derived:
        values = {one.attribute: one.value_of(key) for one in self._derivations}
        mark = json.dumps(list(values.values())).encode()
        return self._of_mark.setdefault(mark, (mark, values))
