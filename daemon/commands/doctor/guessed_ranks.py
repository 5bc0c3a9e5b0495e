"""Where feedback of no preset states the rank of its item, guessed from the lists. Pure."""

from collections import Counter, defaultdict
from collections.abc import Sequence
from typing import Any, Final

from ...mapping.expressions import expression
from .elements import find
from .guessed_tables import Items, RankGuess
from .ids import IdPair
from .profile import plain_members

BASES: Final = (1, 0)
LEAST_SHARE: Final = 0.8
"""Of the feedback must state the rank of its item."""
LEAST_RANKS: Final = 2
"""Distinct ranks, below which a number may be anything."""
LEAST_SEEN: Final = 30


def guessed_rank(
    lists: Sequence[Any], feedback: Sequence[Any], pair: IdPair, items: Items
) -> RankGuess | None:
    """The path whose number is the rank of the item in its list, for most of the feedback; None
    where there is none."""
    shown = _items_by_id(lists, pair, items)
    id_path = expression(pair.of_feedback)
    seen, states = Counter[str](), defaultdict[tuple[str, int], list[int]](list)
    for value in feedback:
        members = plain_members(value)
        found = shown.get(str(find(id_path, value)), [])
        item = str(members.get(items.of_feedback))
        if item not in found:
            continue
        rank0 = found.index(item)
        for path, number in members.items():
            if type(number) is int:
                seen[path] += 1
                for base in BASES:
                    if number == rank0 + base:
                        states[path, base].append(rank0)
    return _best(seen, states)


def _best(seen: Counter[str], states: dict[tuple[str, int], list[int]]) -> RankGuess | None:
    found = [
        RankGuess(path, base, len(ranks) / seen[path])
        for (path, base), ranks in states.items()
        if seen[path] >= LEAST_SEEN and len(set(ranks)) >= LEAST_RANKS
    ]
    best = max(found, key=lambda one: one.share, default=None)
    return best if best is not None and best.share >= LEAST_SHARE else None


def _items_by_id(lists: Sequence[Any], pair: IdPair, items: Items) -> dict[str, list[str]]:
    """Id of a list → its items."""
    id_path = expression(pair.of_lists)
    member = f".{items.member}" if items.member else ""
    array = expression(f"{items.array}[]{member}")
    found = dict[str, list[str]]()
    for value in lists:
        shown = find(array, value)
        if isinstance(shown, list):
            found.setdefault(str(find(id_path, value)), [*map(str, shown)])
    return found
