"""Attributes and experiments of a table: which values are read, and the texts they come to. Pure.

Their texts are made once for each distinct combination of values, not for each impression.
"""

from collections.abc import Collection
from typing import Any, final

from ..events.fields import InvalidField
from .evaluation import Evaluation
from .expressions import Expression, Node
from .functions import Surroundings
from .impressions import add_listed
from .shapes import ANYTHING, SCALAR, Role, Unsupported
from .tables import ALL_MEMBERS, ImpressionTable
from .values import Texts


@final
class TableLabels:
    """The attributes and experiments of one table."""

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
        attributes, experiments, rest = Texts(), Texts(), iter(values)
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
