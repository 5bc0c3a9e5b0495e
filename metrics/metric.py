"""A metric with its settings, and the catalog entry of its family.

Resolve a metric name by a catalog of entries.

Kinds of parameters of metric names: how to parse a value, its default and its rule.
"""

import math
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import Final, Literal, TypeAlias

import numpy as np

from .lists import Floats, Lists
from .spelling import Spelling, join, number_text, split, suggest

Value: TypeAlias = str | float
Direction: TypeAlias = Literal["up", "down", "none"]
Need: TypeAlias = Literal[
    "impression", "timing", "propensities", "known", "subtopics", "pool", "collection"
]

UNBOUNDED: Final = (-math.inf, math.inf)
FROM_ZERO: Final = (0.0, math.inf)
"""Ranges of values."""

BLOCK_ROWS: Final = 32_768
"""Lists that a kernel gets at once: few enough for a few ranks of them to fit in the CPU cache."""

NEEDS: Final[Mapping[Need, str]] = {
    "impression": "nothing beyond the impression",
    "timing": "the time of the first feedback",
    "propensities": "propensities (how likely each rank is examined)",
    "known": "which relevant items the user knew before",
    "subtopics": "judgements of each item for each subtopic of its query",
    "pool": "a judged pool (the grades of all judged items of the query, shown or not)",
    "collection": "a judged pool and the number of items that could have been returned",
}
"""What a metric needs of the lists, in words; from the least to the most."""


@dataclass(frozen=True)
class Parameter:
    """One setting that a name may state in brackets, such as `gain` in `nDCG(gain=linear)`."""

    default: Value
    read: Callable[[str], Value]
    """Parses the text; raises ValueError if it breaks the rule."""
    rule: str
    """Completes an error message: "must be …"."""
    required: bool = False
    """Whether the name must state it."""
    needs: Callable[[Value], Need] = lambda value: "impression"
    """What this value needs, in addition to what the family needs."""

    def accepts(self, text: str) -> bool:
        """Whether a name may state this value."""
        try:
            self.read(text)
        except ValueError:
            return False
        return True


def _skip_or_zero(text: str) -> str:
    if text not in ("skip", "zero"):
        raise ValueError(text)
    return text


UNDEFINED: Final = "undefined"
"""The parameter of families that are undefined for some lists."""
_UNDEFINED: Final = Parameter("skip", _skip_or_zero, "must be skip or zero")
"""Whether such lists are left out of means, or count 0."""


@dataclass(frozen=True)
class Entry:
    """The catalog entry of a family of metrics."""

    compute: "Callable[[Lists, Metric], Floats]"
    """The binding: (n,) values of the lists, NaN where undefined."""
    source: str
    """Where the metric is defined."""
    meaning: str = field(kw_only=True)
    """What a value says, in words."""
    range: tuple[float, float] = (0.0, 1.0)
    """Lowest and highest value."""
    direction: Direction = "up"
    """`up` if higher is better, `down` if lower is, `none` if neither."""
    undefined: str = "never"
    """In which case the value is NaN, in words."""
    unit: int = 1_000_000
    """Counters add floor(unit * value + 0.5001): fine for the range, coarse enough for int64."""
    needs: Need = "impression"
    """What the lists must have, whatever the settings."""
    cutoff: Literal["rank", "recall", "none"] = "rank"
    """What follows the @: a rank k (optional), a recall level (required), or nothing."""
    pooled: "Callable[[Lists, Metric], Floats] | None" = None
    """(1,) the value of the sums of all lists, a micro average; None where it has none."""
    parameters: Mapping[str, Parameter] = field(default_factory=dict)
    """Settings that the name may state, by key; `undefined` is added to those of a family that is
    undefined for some lists, unless less is better: such a list would get the best value."""

    def __post_init__(self) -> None:
        if self.undefined != "never" and self.direction != "down":
            added = {**self.parameters, UNDEFINED: _UNDEFINED}
            object.__setattr__(self, "parameters", added)


@dataclass(frozen=True)
class Metric:
    """One metric: a frozen value, equal to another with the same name and settings.

    >>> from relevanced.metrics.catalog import parse
    >>> parse("P@2").values(Lists.of([[1, 0], [1, 1], []])).tolist()
    [0.5, 1.0, 0.0]
    """

    name: str
    """The canonical spelling."""
    k: int | None
    """The cut-off @k; None for a name without one."""
    settings: tuple[tuple[str, Value], ...]
    """All parameters of the family with their values, also those that the name does not state."""
    entry: Entry = field(compare=False, repr=False)

    @property
    def full_name(self) -> str:
        """The name with every setting, also those that are the default here: it means the same
        wherever it is read.

        >>> from relevanced.metrics.catalog import parse
        >>> parse("nDCG@10").full_name
        'nDCG(gain=exponential,ideal=list)@10'
        """
        settings = dict(self.settings)
        stated: dict[str, str] = {}
        for key, parameter in self.entry.parameters.items():
            value = settings[key]
            if (key, value) == (UNDEFINED, "skip"):
                continue  # The value is NaN then: what a mean makes of that is not its meaning.
            text = value if isinstance(value, str) else number_text(value)
            if parameter.accepts(text):  # a default such as "no base" cannot be written down
                stated[key] = text
        cutoff = settings.get("recall") if self.k is None else self.k
        family = self.name.partition("(")[0].partition("@")[0]
        return join(Spelling(family, stated, None if cutoff is None else str(cutoff)))

    @property
    def unit(self) -> int:
        """Integer steps of a value of 1 in counters."""
        return self.entry.unit

    @property
    def direction(self) -> Direction:
        """`up` if higher is better, `down` if lower is, `none` if neither."""
        return self.entry.direction

    @property
    def zero_undefined(self) -> bool:
        """Whether lists for which the family is undefined count 0, by `undefined=zero`."""
        return (UNDEFINED, "zero") in self.settings

    @property
    def needs(self) -> Need:
        """What the lists must have besides the items shown and their grades."""
        needed = {self.entry.needs}
        for key, value in self.settings:
            if key in self.entry.parameters:
                needed.add(self.entry.parameters[key].needs(value))
        return max(needed, key=list(NEEDS).index)

    def values(self, lists: Lists) -> Floats:
        """(n,) the value of every list; NaN where undefined.

        The value of a list is the same to the last bit in any batch. Raises ValueError if the lists
        lack what the metric needs, or have grades outside its scale.
        """
        self._check_needs(lists)
        values = np.empty(len(lists))
        for start, block in zip(range(0, len(lists), BLOCK_ROWS), lists.blocks(BLOCK_ROWS)):
            values[start : start + BLOCK_ROWS] = self.entry.compute(block, self)
        return np.where(np.isnan(values), 0.0, values) if self.zero_undefined else values

    def refusal(
        self, available: Collection[Need] = (), provider: str = "an impression"
    ) -> str | None:
        """Why this metric cannot be computed from data with `available` only; None if it can.

        >>> from relevanced.metrics.catalog import parse
        >>> parse("FirstFeedbackSeconds").refusal(["timing"]) is None
        True
        """
        if self.needs == "impression" or self.needs in available:
            return None
        return f"{self.name} needs {NEEDS[self.needs]}, which {provider} cannot provide"

    def micro(self, lists: Lists) -> float | None:
        """The micro average: the value of the counts of all lists added up; None of a metric that
        is not of counts, NaN where it is undefined. Raises ValueError as `values` does.

        >>> from relevanced.metrics.catalog import parse
        >>> round(parse("SetP").micro(Lists.of([[1, 1, 0, 0, 0], [1, 1, 0, 0]])), 4)
        0.4444
        """
        if self.entry.pooled is None:
            return None
        self._check_needs(lists)
        return float(self.entry.pooled(lists, self)[0])

    def highest(self, best: Lists) -> float:
        """The highest value there is: that of the range, or of the best list where it has no
        bound."""
        bound = self.entry.range[1]
        return bound if math.isfinite(bound) else float(self.values(best)[0])

    def word(self, key: str) -> str:
        """The value of a setting that is a word, such as `gain`. Raises KeyError."""
        return str(dict(self.settings)[key])

    def number(self, key: str) -> float:
        """The value of a setting that is a number, such as `rel`. Raises KeyError."""
        return float(dict(self.settings)[key])

    def ranks(self, lists: Lists) -> int:
        """The cut-off in these lists: k, at most their depth; the depth for a name without @k."""
        return lists.depth if self.k is None else min(self.k, lists.depth)

    def _check_needs(self, lists: Lists) -> None:
        present: dict[Need, bool] = {
            "impression": True,
            "timing": lists.first_feedback_s is not None,
            "propensities": lists.weights is not None,
            "known": lists.known is not None and lists.known_relevant is not None,
            "subtopics": lists.subtopics is not None and lists.pool_subtopics is not None,
            "pool": lists.pool is not None,
            "collection": lists.pool is not None and lists.collection_size is not None,
        }
        if not present[self.needs]:
            raise ValueError(f"{self.name} needs {NEEDS[self.needs]}: these lists have none")


_SYNONYMS: Final = {
    ("dcg", "log2"): ("gain", "linear"),
    ("dcg", "exp-log2"): ("gain", "exponential"),
}
"""Spellings of ir_measures -> ours."""


def resolve(
    name: str,
    catalog: Mapping[str, Entry],
    *,
    configured: Mapping[str, float],
    ideal: str = "list",
) -> Metric:
    """Resolve a name in a catalog.

    The canonical name states the parameters that differ from their defaults. Defaults in
    `configured` replace those of the catalog. `ideal` replaces the default of that parameter, but
    the canonical name states it if it is not `list`, since values differ. Raises ValueError.

    >>> empty = Entry(lambda lists, metric: lists.lengths == 0, "", meaning="", cutoff="none")
    >>> table = {"ZeroResults": empty}
    >>> resolve("ZeroResults", table, configured={}).name
    'ZeroResults'
    """
    spelling = split(name)
    entry = catalog.get(spelling.family)
    if entry is None:
        raise ValueError(suggest(name, spelling, catalog))
    given = _translated(name, spelling, entry)
    settings: dict[str, Value] = {}
    shown: dict[str, str] = {}
    for key, parameter in entry.parameters.items():
        default: Value = float(configured[key]) if key in configured else parameter.default
        assumed = ideal if key == "ideal" else default
        value = _read(name, key, given.get(key), parameter, assumed)
        settings[key] = value
        if parameter.required or value != default or value != assumed:
            shown[key] = value if isinstance(value, str) else number_text(value)
    k, recall = _cutoff(name, spelling, entry)
    if recall is not None:
        settings["recall"] = recall
    cutoff = recall if k is None else str(k)
    canonical = join(Spelling(spelling.family, shown, cutoff))
    return Metric(canonical, k, tuple(settings.items()), entry)


def _translated(name: str, spelling: Spelling, entry: Entry) -> dict[str, str]:
    """The parameters in our spelling. Raises ValueError for one that the family does not have."""
    given = dict(_SYNONYMS.get(pair, pair) for pair in spelling.parameters.items())
    for key in given:
        if key not in entry.parameters:
            allowed = ", ".join(entry.parameters) or "none"
            raise ValueError(
                f"{name!r}: {key} is not a parameter of {spelling.family}, which takes {allowed}"
            )
    return given


def _read(name: str, key: str, text: str | None, parameter: Parameter, default: Value) -> Value:
    if text is None:
        if parameter.required:
            raise ValueError(f"{name!r}: {key} must be given: it {parameter.rule}")
        return default
    try:
        return parameter.read(text)
    except ValueError:
        raise ValueError(f"{name!r}: {key}={text}: {parameter.rule}") from None


def _cutoff(name: str, spelling: Spelling, entry: Entry) -> tuple[int | None, str | None]:
    """(k, recall level): what follows the @, None for what does not."""
    text = spelling.cutoff
    if entry.cutoff == "recall":
        return None, _recall(name, spelling)
    if text is None:
        return None, None
    if entry.cutoff == "none":
        raise ValueError(f"{name!r}: {spelling.family} takes the whole list, so no @{text}")
    if not text.isdecimal() or int(text) < 1:
        raise ValueError(f"{name!r}: k={text}: must be a whole number >= 1")
    return int(text), None


def _recall(name: str, spelling: Spelling) -> str:
    rule = f"{spelling.family} must have a recall level from 0 to 1: {spelling.family}@0.5"
    try:
        level = float(spelling.cutoff or "")
    except ValueError:
        raise ValueError(f"{name!r}: {rule}") from None
    if not 0 <= level <= 1:
        raise ValueError(f"{name!r}: {rule}")
    return number_text(level)


def _number(allowed: Callable[[float], bool]) -> Callable[[str], float]:
    def read(text: str) -> float:
        value = float(text)
        if not math.isfinite(value) or not allowed(value):
            raise ValueError(text)
        return value

    return read


def _one_of(*words: str) -> Callable[[str], str]:
    def read(text: str) -> str:
        if text not in words:
            raise ValueError(text)
        return text

    return read


def choice(*words: str, required: bool = False, pool_for: str = "") -> Parameter:
    """One of several words; the first is the default. The word `pool_for` needs a judged pool.

    >>> choice("list", "pool").default
    'list'
    """
    return Parameter(
        words[0],
        _one_of(*words),
        f"must be {' or '.join(words)}",
        required=required,
        needs=lambda value: "pool" if value == pool_for else "impression",
    )


def above(least: float, default: float) -> Parameter:
    """A number greater than `least`, finite.

    >>> above(0, 1).read("2.5")
    2.5
    """
    rule = f"must be a number > {least:g}"
    return Parameter(default, _number(lambda value: value > least), rule)


def weight(default: float, need: Need = "impression") -> Parameter:
    """Any finite number; one that is not 0 needs `need`.

    >>> weight(0, "pool").needs(1.0)
    'pool'
    """
    return Parameter(
        default,
        _number(lambda value: True),
        "must be a number",
        needs=lambda value: need if value else "impression",
    )


ALPHA: Final = {
    "alpha": Parameter(0.5, _number(lambda value: 0 <= value <= 1), "must be a number from 0 to 1")
}
REL: Final = {"rel": above(0, 1)}
GAIN: Final = {"gain": choice("exponential", "linear")}
IDEAL: Final = {"ideal": choice("list", "pool", pool_for="pool")}
BASE: Final = {
    "jk": Parameter(
        0.0,
        _number(lambda value: value > 1),
        "must be a number > 1, the base of Järvelin and Kekäläinen's discount",
    )
}
PERSISTENCE: Final = {
    "p": Parameter(0.8, _number(lambda value: 0 < value < 1), "must be a number between 0 and 1")
}
