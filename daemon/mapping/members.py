"""Which members of a record the expressions of a source read: all others may be left unread. Pure.

An expression is followed through its tree: what it looks at by name stays a place in the record,
and whatever uses a value as a whole (a comparison, a function, the result itself) marks all of it.
Arrays are transparent: a place is the same for each of their elements.
"""

from collections.abc import Iterable
from typing import Final, TypeAlias

from ..schemas.members import EVERYTHING, Members
from .expressions import Expression, Node
from .tables import FeedbackTable, ImpressionTable, Source

Place: TypeAlias = tuple[str, ...]
Places: TypeAlias = frozenset[Place]

_NOWHERE: Final[Places] = frozenset()
_ROOT: Final[Places] = frozenset({()})
_THROUGH: Final = frozenset("index slice".split())
"""Nodes that give an element, or elements, of what they are applied to."""
_CHAINS: Final = frozenset("subexpression pipe index_expression projection".split())


def members_of(source: Source) -> Members:
    """Return what the expressions of a source read of a record."""
    seen = _Seen()
    elements = seen.places(source.each, _ROOT) if source.each is not None else _ROOT
    for impression in source.impressions:
        seen.impression(impression, elements)
    for feedback in source.feedback:
        seen.feedback(feedback, elements)
    for drop in source.drops:
        seen.whole((drop.where, drop.value), elements)
    return _tree(seen.marked)


class _Seen:
    """Gathers the places that are read whole."""

    def __init__(self) -> None:
        self.marked = set[Place]()

    def impression(self, table: ImpressionTable, elements: Places) -> None:
        several = (table.where, table.time, table.first_rank, table.page, table.page_size)
        self.whole((*table.id, *several, table.visitor, table.user), elements)
        self.whole((table.attributes or {}).values(), elements)
        listed = self.places(table.items, elements)
        if table.item is None:
            self.marked |= listed
        self.whole((table.item, table.rank, table.grade, table.team), listed)
        experiments = table.experiments
        self.whole((*(experiments.variants or {}).values(), experiments.map), elements)
        if experiments.list is not None:
            self.whole(
                (experiments.name, experiments.variant), self.places(experiments.list, elements)
            )

    def feedback(self, table: FeedbackTable, elements: Places) -> None:
        several = (table.where, table.time, table.kind, table.visitor)
        self.whole((*(table.id or ()), *several), elements)
        about = elements if table.items is None else self.places(table.items, elements)
        if table.item is None and table.items is not None:
            self.marked |= about
        self.whole((table.item, table.item_id, table.rank, table.grade), about)

    def whole(self, expressions: Iterable[Expression | None], at: Places) -> None:
        """Mark what expressions find."""
        for expression in expressions:
            if expression is not None:
                self.marked |= self.places(expression, at)

    def places(self, expression: Expression, at: Places) -> Places:
        """Where the value of an expression stands; what it reads on the way is marked."""
        return self._of(expression.tree, at)

    def _of(self, node: Node, at: Places) -> Places:
        kind, children = node["type"], node["children"]
        if kind == "field":
            return frozenset((*place, node["value"]) for place in at)
        if kind in _CHAINS:
            for child in children:
                at = self._of(child, at)
            return at
        if kind in _THROUGH:
            return at
        if kind in ("current", "identity"):
            return at
        if kind == "flatten":
            return self._of(children[0], at)
        if kind == "filter_projection":
            left = self._of(children[0], at)
            self.marked |= self._of(children[2], left)
            return self._of(children[1], left)
        return self._consumed(node, at)

    def _consumed(self, node: Node, at: Places) -> Places:
        """What uses values as a whole. Of a choice, the value may be that of either side."""
        if node["type"] == "function_expression" and node["value"] == "root":
            return _ROOT
        found = [self._of(child, at) for child in node["children"] if isinstance(child, dict)]
        for places in found:
            self.marked |= places
        if node["type"] in ("or_expression", "and_expression"):
            return frozenset().union(*found)
        return _NOWHERE


def _tree(places: Iterable[Place]) -> Members:
    """The places as members; what stands below one that is read whole adds nothing."""
    if any(not place for place in places):
        return EVERYTHING
    below: dict[str, set[Place]] = {}
    for first, *rest in places:
        below.setdefault(first, set()).add(tuple(rest))
    return {name: _tree(inner) for name, inner in below.items()}
