"""The metrics in words: the table of the guide, and what `relevanced metrics` prints."""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from .catalog import CATALOG, parse
from .metric import Direction, Entry, Need, Parameter
from .spelling import Spelling, join, number_text, other_names

_BETTER = {"up": "higher", "down": "lower", "none": "neither"}


@dataclass(frozen=True)
class Description:
    """A family of metrics in words."""

    family: str
    example: str
    """A name that can be configured."""
    meaning: str
    better: str
    """`higher`, `lower` or `neither`."""
    range: str
    needs: Need
    """What is needed beyond the impression; a key of `metric.NEEDS`."""
    undefined: str
    """In which case there is no value, or `never`."""
    parameters: Mapping[str, str]
    """What a name may state in brackets -> its rule and its default."""
    source: str
    other_names: tuple[str, ...]
    """Names that other tools have for it, in small letters."""


def describe(family: str) -> Description:
    """Return the description of a family of the catalog. Raises KeyError for another name.

    >>> describe("RR").example, describe("RR").better, describe("RR").range
    ('RR@10', 'higher', '0…1')
    """
    entry = CATALOG[family]
    direction: Direction = entry.direction
    return Description(
        family=family,
        example=_example(family, entry),
        meaning=entry.meaning,
        better=_BETTER[direction],
        range=f"{_bound(entry.range[0])}…{_bound(entry.range[1])}",
        needs=entry.needs,
        undefined=entry.undefined,
        parameters={name: _rule(given) for name, given in entry.parameters.items()},
        source=entry.source,
        other_names=other_names(family),
    )


def descriptions() -> tuple[Description, ...]:
    """Return the description of every family, in the order of the catalog.

    >>> len(descriptions()) == len(CATALOG)
    True
    """
    return tuple(map(describe, CATALOG))


def markdown() -> str:
    """Return the table of all families in Markdown.

    >>> markdown().splitlines()[0]
    '| metric | meaning | better | range | needs | undefined where |'
    """
    return "\n".join(_rows()) + "\n"


def _rows() -> Iterator[str]:
    yield "| metric | meaning | better | range | needs | undefined where |"
    yield "|---|---|---|---|---|---|"
    for found in descriptions():
        needs = "" if found.needs == "impression" else found.needs
        undefined = "" if found.undefined == "never" else found.undefined
        columns = (f"`{found.example}`", found.meaning, found.better, found.range, needs, undefined)
        yield "| " + " | ".join(columns) + " |"


def _example(family: str, entry: Entry) -> str:
    """A name that states what must be stated, with a usual cut-off."""
    stated = {name: str(p.default) for name, p in entry.parameters.items() if p.required}
    cutoff = {"rank": "10", "recall": "0.5", "none": None}[entry.cutoff]
    return parse(join(Spelling(family, stated, cutoff))).name


def _rule(parameter: Parameter) -> str:
    rule = parameter.rule.removeprefix("must be ")
    if parameter.required:
        return f"{rule}; must be given"
    default = parameter.default
    text = default if isinstance(default, str) else number_text(default)
    return f"{rule}; default {text if parameter.accepts(text) else 'none'}"


def _bound(value: float) -> str:
    if math.isinf(value):
        return "∞" if value > 0 else "-∞"
    return number_text(value)
