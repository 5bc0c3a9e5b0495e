"""Where producers begin to count ranks: the stated rank of feedback less that in its list. Pure."""

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Final, TypeAlias

from ...events.types import Impression
from .looked import Looked

Offsets: TypeAlias = Counter[int]
"""Reported rank less the rank of the item in its list → pieces of feedback."""
FEW: Final = 30
"""With fewer pieces of feedback no share of them is said."""
LEAST_ONE_RANK: Final = 0.8
"""Of the feedback with item and rank must agree about where ranks begin."""


def rank_offsets(looked: Looked) -> Offsets:
    """The offsets of all feedback with an item of a list and a rank."""
    return Counter(offset for _, offset in _offsets(looked))


def agreed(offsets: Offsets) -> int | None:
    """The offset that nearly all feedback has; None where it is mixed, or there is too little."""
    if offsets.total() < FEW:
        return None
    offset, count = offsets.most_common(1)[0]
    return offset if count >= LEAST_ONE_RANK * offsets.total() else None


def explained_by(looked: Looked) -> tuple[str, Mapping[str, int]] | None:
    """The attribute of lists by whose values mixed ranks agree, and the offset of each value: often
    one application counts from 0 and another from 1. None where no attribute explains them."""
    by_name: dict[str, dict[str, Offsets]] = {}
    for shown, offset in _offsets(looked):
        for name, value in shown.attributes.items():
            by_name.setdefault(name, {}).setdefault(value, Counter())[offset] += 1
    found = dict[str, dict[str, int]]()
    for name, by_value in by_name.items():
        enough = {value: one for value, one in by_value.items() if one.total() >= FEW}
        offsets = {value: agreed(one) for value, one in enough.items()}
        known = {value: offset for value, offset in offsets.items() if offset is not None}
        if len(set(known.values())) > 1 and len(known) == len(enough):
            found[name] = known
    # Of several, the one with the fewest values: the others divide it further.
    return min(found.items(), key=lambda one: (len(one[1]), one[0]), default=None)


def _offsets(looked: Looked) -> Iterator[tuple[Impression, int]]:
    """(impression, offset) of each piece of feedback with an item of a list and a rank."""
    ranks: dict[str, dict[str, tuple[Impression, int]]] = {}
    for shown in looked.impressions:
        at = ranks.setdefault(shown.impression_id, {})
        for rank, item in enumerate(shown.items, shown.first_rank):
            at.setdefault(item, (shown, rank))
    for one in looked.feedback:
        found = ranks.get(one.impression_id, {}).get(one.item or "")
        if one.rank is not None and found is not None:
            yield found[0], one.rank - found[1]
