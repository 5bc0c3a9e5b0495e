"""Which members of a record a source reads: all others may be left unread. Pure."""

from collections.abc import Iterable
from typing import Final, TypeAlias

from ..schemas import EVERYTHING, Members
from .expressions import (
    Expression,
    FeedbackTable,
    ImpressionTable,
    MappedSource,
    Node,
)

Place: TypeAlias = tuple[str, ...]


Places: TypeAlias = frozenset[Place]


_NOWHERE: Final[Places] = frozenset()


_ROOT: Final[Places] = frozenset({()})


_THROUGH: Final = frozenset("index slice".split())
"""Nodes that give an element, or elements, of what they are applied to."""


_CHOICES: Final = frozenset("or_expression and_expression".split())


_CHAINS: Final = frozenset("subexpression pipe index_expression projection".split())


def members_of(source: MappedSource) -> Members:
    """Return what the expressions of a source read of a record: all other members may be left
    unread.

    An expression is followed through its tree: what it looks at by name stays a place in the
    record. Whatever uses a value as a whole (a comparison, a function, the result itself) marks all
    of it; whatever only asks whether it is true marks no member of it. Arrays are transparent: a
    place is the same for each of their elements.
    """
    seen = _SeenMembers()
    elements = seen.places(source.each, _ROOT) if source.each is not None else _ROOT
    for impression in source.impressions:
        seen.impression(impression, elements)
    for feedback in source.feedback:
        seen.feedback(feedback, elements)
    for drop in source.drops:
        seen.condition(drop.where, elements)
        seen.whole((drop.value,), elements)
    return _tree(seen.marked, seen.tested)


class _SeenMembers:
    """Gathers the places that are read whole, and those of which it is asked whether they are
    true."""

    def __init__(self) -> None:
        self.marked = set[Place]()
        self.tested = set[Place]()

    def impression(self, table: ImpressionTable, elements: Places) -> None:
        self.condition(table.where, elements)
        several = (table.time, table.first_rank, table.page, table.page_size, table.query)
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
        self.condition(table.where, elements)
        several = (table.time, table.kind, table.visitor)
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

    def condition(self, expression: Expression | None, at: Places) -> None:
        """Mark what a condition reads."""
        if expression is not None:
            self.tested |= self.places(expression, at)

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
            self.tested |= self._of(children[2], left)
            return self._of(children[1], left)
        if kind in _CHOICES:
            # The value may be that of either side, by whether the first is true.
            first, second = (self._of(child, at) for child in children)
            self.tested |= first
            return first | second
        if kind == "not_expression":
            self.tested |= self._of(children[0], at)
            return _NOWHERE
        return self._consumed(node, at)

    def _consumed(self, node: Node, at: Places) -> Places:
        """What uses values as a whole."""
        if node["type"] == "function_expression" and node["value"] == "root":
            return _ROOT
        for child in node["children"]:
            self.marked |= self._of(child, at)
        return _NOWHERE


def _tree(marked: Iterable[Place], tested: Iterable[Place]) -> Members:
    """The places as members; what stands below one that is read whole adds nothing."""
    if () in marked:
        return EVERYTHING
    names = dict.fromkeys(place[0] for place in (*marked, *tested) if place)
    return {name: _tree(_below(name, marked), _below(name, tested)) for name in names}


def _below(name: str, places: Iterable[Place]) -> set[Place]:
    return {place[1:] for place in places if place and place[0] == name}
