"""Kinds of parameters of metric names: how to parse a value, its default and its rule."""

import math
from collections.abc import Callable
from typing import Final

from .metric import Need, Parameter


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
