"""How much work the interpreter would have with a record, at most. Pure.

The interpreter refuses what takes too many steps. The compiled form takes fewer and counts none, so
it reads only records that the interpreter certainly reads within its limit.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

from ..events.types import LONG_RECORD_BYTES
from ..schemas.types import JSON
from .expressions import Expression, Node
from .functions import CHARACTERS_PER_STEP, STEPS, STEPS_PER_BYTE
from .getters import LONGEST_HEADER
from .json_shapes import MOST_LISTED
from .tables import Source

_LEAST_BYTES: Final = {JSON: 2}
"""Codec → least bytes of an element of a list: 1, where it is not named."""
_ABOUT_RECORD: Final = ("header", "key", "ce")


@dataclass(frozen=True)
class Work:
    """Steps of a mapping, at most."""

    of_element: int
    """With an event, but for its lists."""
    of_listed: int
    """With an element of a list."""
    calls: int
    """Functions that are called: each may go through all texts of the record."""
    least_bytes: int = 1
    """Of an element of a list."""

    @cached_property
    def always_allowed(self) -> bool:
        """Whether every plain record of one event is: the bound is highest at one of these."""
        sizes = (0, MOST_LISTED * self.least_bytes, LONG_RECORD_BYTES)
        return all(self.is_allowed(1, size) for size in sizes)

    def is_allowed(self, elements: int, size: int) -> bool:
        """Whether the interpreter would surely read a record of so many events and bytes."""
        most_listed = min(elements * MOST_LISTED, size // self.least_bytes)
        steps = elements * self.of_element + most_listed * self.of_listed
        steps += self.calls * 2 * size // CHARACTERS_PER_STEP
        return steps <= STEPS + STEPS_PER_BYTE * size


def work_of(source: Source) -> Work:
    """Return the work with a record of a source."""
    once, listed = list[Expression](), list[Expression]()
    for table in source.impressions:
        listed += _given(table.item, table.rank, table.grade, table.team)
        labels, tests = table.attributes or {}, table.experiments
        once += [*table.id, table.time, table.items, *labels.values()]
        once += _given(table.where, table.first_rank, table.page, table.page_size)
        once += _given(table.visitor, table.user, tests.map, tests.list)
        once += (tests.variants or {}).values()
    for reaction in source.feedback:
        listed += _given(reaction.item, reaction.rank, reaction.grade, reaction.item_id)
        # The interpreter asks for the id of the event once for each of its items.
        listed += reaction.id or ()
        once += [*(reaction.id or ()), reaction.time]
        once += _given(reaction.where, reaction.kind, reaction.kind, reaction.items)
    for drop in source.drops:
        once += _given(drop.where, drop.value)
    counts = [_counted(one.tree) for one in once] + [_counted(one.tree) for one in listed]
    of_lists = sum(_counted(one.tree)[0] for one in listed)
    each = _counted(source.each.tree)[0] if source.each else 0
    return Work(
        of_element=sum(one for one, _, _ in counts) + each,
        of_listed=sum(inner for _, inner, _ in counts) + of_lists,
        calls=sum(calls for _, _, calls in counts),
        least_bytes=_LEAST_BYTES.get(source.codec, 1),
    )


def _given(*expressions: Expression | None) -> Iterable[Expression]:
    return [one for one in expressions if one is not None]


def _counted(node: Node) -> tuple[int, int, int]:
    """The nodes that are evaluated once, those for each element of a list, and the calls."""
    once, listed, calls = 1, 0, 0
    is_projection = node["type"] in ("projection", "filter_projection")
    if node["type"] == "function_expression":
        calls = 1
        once += 2 * LONGEST_HEADER // CHARACTERS_PER_STEP * (node["value"] in _ABOUT_RECORD)
        listed += (2 * len(node["children"]) + 1) * (node["value"] in ("zip", "split"))
    if node["type"] == "flatten":
        listed += 1
    children: list[Any] = [child for child in node["children"] if isinstance(child, dict)]
    for position, child in enumerate(children):
        inner = _counted(child)
        if is_projection and position > 0:
            listed += inner[0] + inner[1]
        else:
            once, listed = once + inner[0], listed + inner[1]
        calls += inner[2]
    return once, listed, calls
