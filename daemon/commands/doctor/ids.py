"""Which paths of two kinds of records have the id of a search in common. Pure."""

from dataclasses import dataclass
from typing import Final

from .profile import FIRST, Profile

LEAST_COMMON: Final = 0.5
"""Of the records of feedback must have the value of some list at the path."""
LEAST_DISTINCT: Final = 0.9
"""Of the lists must have a value of their own."""
LEAST_PRESENT: Final = 0.8
"""Of the records of either kind must have the path."""


@dataclass(frozen=True)
class IdPair:
    """A path of lists and one of feedback with the same values."""

    of_lists: str
    of_feedback: str
    common: float
    """The share of the feedback whose value is that of a list."""
    distinct: float
    """Distinct values by list."""


def id_pairs(lists: Profile, feedback: Profile) -> list[IdPair]:
    """The pairs that may be ids of searches, the best first: most in common, then with the same
    path on both sides, then the most distinct."""
    sides = _candidates(lists, LEAST_DISTINCT), _candidates(feedback, 0.0)
    found = []
    for path, distinct in sides[0].items():
        known = {own[path] for own in lists.values if path in own}
        for other in sides[1]:
            hits = sum(own.get(other) in known for own in feedback.values)
            common = hits / feedback.records
            if common >= LEAST_COMMON:
                found.append(IdPair(path, other, common, distinct))
    return sorted(found, key=_order)


def _order(pair: IdPair) -> tuple[float, bool, int, float]:
    by_place = pair.of_lists.removesuffix(FIRST).count("[0]")  # a key says more than a place
    return -pair.common, pair.of_lists != pair.of_feedback, by_place, -pair.distinct


def _candidates(profile: Profile, least_distinct: float) -> dict[str, float]:
    """Path → distinct values by record, of the paths that may be an id."""
    found = {}
    for path, known in profile.paths.items():
        present = known.records / profile.records
        distinct = len({own[path] for own in profile.values if path in own}) / known.records
        if known.is_scalar and present >= LEAST_PRESENT and distinct >= least_distinct:
            found[path] = distinct
    return found
