"""What a metric is: the entry of its family in the catalog, and one metric with its settings."""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import Final, Literal, TypeAlias

import numpy as np

from .lists import Floats, Lists

Value: TypeAlias = str | float
Direction: TypeAlias = Literal["up", "down", "none"]
Need: TypeAlias = Literal["impression", "timing", "propensities", "known", "pool", "collection"]

BLOCK_ROWS: Final = 32_768
"""Lists that a kernel sees at once: a few ranks of so many gains stay in a processor's cache."""

NEEDS: Final[Mapping[Need, str]] = {
    "impression": "nothing beyond the impression",
    "timing": "the time of the first feedback",
    "propensities": "propensities (how likely each rank is looked at)",
    "known": "which relevant items the searcher knew before",
    "pool": "a judged pool (the grades of all judged items of the query, shown or not)",
    "collection": "a judged pool and the number of items that could have been returned",
}
"""From the least to the most."""


@dataclass(frozen=True)
class Parameter:
    """One setting that a name may carry in brackets."""

    default: Value
    read: Callable[[str], Value]
    """Raises ValueError for text that breaks the rule."""
    rule: str
    required: bool = False
    needs: Callable[[Value], Need] = lambda value: "impression"
    """What a value asks for beyond what its family does."""


@dataclass(frozen=True)
class Entry:
    """What the catalog knows of a family of metrics."""

    compute: "Callable[[Lists, Metric], Floats]"
    source: str
    range: tuple[float, float] = (0.0, 1.0)
    direction: Direction = "up"
    undefined: str = "never"
    """When the value is NaN, in words."""
    unit: int = 1_000_000
    """Counters hold floor(unit * value): fine enough for the range, coarse enough for int64."""
    needs: Need = "impression"
    cutoff: Literal["rank", "recall", "none"] = "rank"
    """What stands behind the @: ranks (may be left out), a recall level (may not), or nothing."""
    parameters: Mapping[str, Parameter] = field(default_factory=dict)


@dataclass(frozen=True)
class Metric:
    """One metric: a frozen value, equal to any other of the same name and settings.

    >>> from relevanced.metrics.catalog import parse
    >>> parse("P@2").values(Lists.of([[1, 0], [1, 1], []])).tolist()
    [0.5, 1.0, 0.0]
    """

    name: str
    """The canonical spelling."""
    k: int | None
    """Ranks that count; None for the whole list."""
    settings: tuple[tuple[str, Value], ...]
    """Every parameter of the family with its value, whether the name shows it or not."""
    entry: Entry = field(compare=False, repr=False)

    @property
    def unit(self) -> int:
        """Integer steps for a value of 1 in counters."""
        return self.entry.unit

    @property
    def direction(self) -> Direction:
        """`up` where more is better, `down` where less is, `none` where neither is."""
        return self.entry.direction

    @property
    def needs(self) -> Need:
        """What the lists must carry beside what was shown and its grades: the most of any part."""
        asked = {self.entry.needs}
        for key, value in self.settings:
            if key in self.entry.parameters:
                asked.add(self.entry.parameters[key].needs(value))
        return max(asked, key=list(NEEDS).index)

    def values(self, lists: Lists) -> Floats:
        """(n,) the metric of every list; NaN where it is undefined.

        A list's value is the same to the last bit whatever stands beside it in the batch.
        """
        self._check_needs(lists)
        values = np.empty(len(lists))
        for start, block in zip(range(0, len(lists), BLOCK_ROWS), lists.blocks(BLOCK_ROWS)):
            values[start : start + BLOCK_ROWS] = self.entry.compute(block, self)
        return values

    def refusal(
        self, available: Collection[Need] = (), carrier: str = "an impression"
    ) -> str | None:
        """Why a carrier of no more than `available` cannot give this metric; None if it can.

        >>> from relevanced.metrics.catalog import parse
        >>> parse("FirstFeedbackSeconds").refusal(["timing"]) is None
        True
        """
        if self.needs == "impression" or self.needs in available:
            return None
        return f"{self.name} needs {NEEDS[self.needs]}, beyond what {carrier} can tell"

    def word(self, key: str) -> str:
        """The value of a setting that is a word."""
        return str(dict(self.settings)[key])

    def number(self, key: str) -> float:
        """The value of a setting that is a number."""
        return float(dict(self.settings)[key])

    def ranks(self, lists: Lists) -> int:
        """Ranks that count in these lists."""
        return lists.depth if self.k is None else min(self.k, lists.depth)

    def _check_needs(self, lists: Lists) -> None:
        carried: dict[Need, bool] = {
            "impression": True,
            "timing": lists.first_feedback_s is not None,
            "propensities": lists.weights is not None,
            "known": lists.known is not None and lists.known_relevant is not None,
            "pool": lists.pool is not None,
            "collection": lists.pool is not None and lists.collection_size is not None,
        }
        if not carried[self.needs]:
            raise ValueError(f"{self.name} needs {NEEDS[self.needs]}: these lists carry none")
