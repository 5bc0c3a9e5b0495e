"""The grammar of metric names such as `nDCG(gain=linear)@10`: split a name, join its parts.

It does not depend on the catalog.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass

_NAME = re.compile(r"\s*([A-Za-z][A-Za-z0-9_-]*)\s*(?:\(([^()]*)\))?\s*(?:@\s*([0-9.]+))?\s*")

_NAMES = re.compile(r"(?:\([^()\s]*\)|[^,\s])+")


@dataclass(frozen=True)
class Spelling:
    """The parts of a metric name, as text."""

    family: str
    parameters: Mapping[str, str]
    cutoff: str | None


def split(name: str) -> Spelling:
    """Split a name. Raises ValueError if it does not follow the grammar.

    >>> split("nDCG(gain=linear)@10")
    Spelling(family='nDCG', parameters={'gain': 'linear'}, cutoff='10')
    """
    match = _NAME.fullmatch(name)
    if match is None:
        if len(parts := several(name)) > 1 and all(map(_NAME.fullmatch, parts)):
            raise ValueError(f"{name!r} is {len(parts)} names: give each singly: {' '.join(parts)}")
        raise ValueError(
            f"{name!r} is not a metric name: must look like nDCG@10 or nDCG(gain=linear)@10"
        )
    family, inside, cutoff = match.groups()
    parameters: dict[str, str] = {}
    for part in inside.split(",") if inside and inside.strip() else []:
        key, equals, value = part.partition("=")
        key, value = key.strip(), value.strip().strip("'\"")
        if not equals or not key or not value:
            raise ValueError(f"{name!r}: {part.strip()!r} must be parameter=value")
        if key in parameters:
            raise ValueError(f"{name!r}: {key} is given twice")
        parameters[key] = value
    return Spelling(family, parameters, cutoff)


def several(text: str) -> list[str]:
    """The names of a text that separates them by commas or blanks. A comma in brackets is part of
    its name, a blank is not.

    >>> several("P@5,nDCG(gain=linear,ideal=pool)@10 RR")
    ['P@5', 'nDCG(gain=linear,ideal=pool)@10', 'RR']
    """
    return _NAMES.findall(text)


def join(spelling: Spelling) -> str:
    """Join the parts of a name.

    >>> join(Spelling("P", {"rel": "2"}, "5"))
    'P(rel=2)@5'
    """
    inside = ",".join(f"{key}={value}" for key, value in spelling.parameters.items())
    brackets = f"({inside})" if inside else ""
    cutoff = "" if spelling.cutoff is None else f"@{spelling.cutoff}"
    return f"{spelling.family}{brackets}{cutoff}"


def number_text(value: float) -> str:
    """The shortest text that parses as the same number.

    >>> number_text(2.0), number_text(0.5)
    ('2', '0.5')
    """
    return str(int(value)) if value == int(value) else repr(value)
