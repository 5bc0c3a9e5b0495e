"""Which metrics tell a change, and which tell what it looks like. Pure."""

from collections.abc import Sequence
from typing import Final

FAMILIES: Final = ("RR", "Success", "P", "ERR", "nDCG")
"""The score that tells a change is of the first of these families that fell."""
POOLED: Final = "nDCG(ideal=pool"
"""A judged nDCG comes before all: what a list lacks counts in it too, as the ideal is of all that
is judged. That of feedback comes last, as its ideal is of the list alone."""


def family(metric: str) -> int:
    """The rank of a metric among those that tell a change: the least tells it."""
    if metric.startswith(POOLED):
        return -1
    name = metric.partition("@")[0].partition("(")[0]
    order = {**{known: at for at, known in enumerate(FAMILIES)}, "nDCG": len(FAMILIES) + 1}
    return order.get(name, len(FAMILIES))


def pair(metrics: Sequence[str]) -> tuple[str | None, str | None]:
    """The deepest Success for which there is an RR of the same parameters, and that RR; else the
    deepest Success alone."""
    names = dict.fromkeys(metrics)
    successes = [name for name in names if name.startswith("Success@")]
    successes.sort(key=lambda name: -int(name.rpartition("@")[2]))
    for name in successes:
        rr = name.replace("Success", "RR", 1)
        if rr in names:
            return name, rr
    return (successes[0] if successes else None), None
