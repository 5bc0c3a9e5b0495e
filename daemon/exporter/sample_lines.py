"""Lines of samples, family by family, as both text formats have them. Pure."""

from collections.abc import Sequence
from itertools import compress
from typing import TypeAlias

import numpy as np

from relevanced.metrics.lists import Floats

from ..telemetry.family import Family

Bodies: TypeAlias = dict[str, list[bytes]]
"""Family name → its lines, in one chunk for each call that added some."""


def add_defined(
    bodies: Bodies, family: Family, head: str, labels: Sequence[str], tail: str, values: Floats
) -> None:
    """Add the samples that have a value: what is undefined is absent, neither 0 nor NaN.

    Nine digits: more than the millionths that rows are kept in, and half the time of all seventeen.
    """
    start = family.name + head
    defined = ~np.isnan(values)
    pairs = zip(compress(labels, defined.tolist()), values[defined].tolist(), strict=True)
    add_lines(bodies, family, [f"{start}{label}{tail}{value:.9g}\n" for label, value in pairs])


def add(
    bodies: Bodies,
    family: Family,
    head: str,
    labels: Sequence[str],
    tail: str,
    values: Sequence[float],
) -> None:
    """Add a sample for each label text: `head` and `tail` are what its line has around that."""
    start = family.name + head
    pairs = zip(labels, values, strict=True)
    add_lines(bodies, family, [f"{start}{label}{tail}{value!r}\n" for label, value in pairs])


def add_lines(bodies: Bodies, family: Family, lines: Sequence[str]) -> None:
    body = bodies.setdefault(family.name, [])
    if lines:
        body.append("".join(lines).encode())
