"""The grades that several raters gave the same items."""

from collections.abc import Iterable, Sequence
from typing import TypeAlias

import numpy as np

from relevanced.metrics import Floats

from .faults import Fault, FaultyJudgements
from .formats import judgements_of
from .grades import HIGHEST_GRADE, add_judgement

Pair: TypeAlias = tuple[str, str]
"""(key of a query, item)."""


def read_raters(
    lines: Iterable[bytes], file: str, max_grade: float = HIGHEST_GRADE
) -> dict[Pair, list[float]]:
    """The grades of each pair of a file, in the order of its lines. Raises FaultyJudgements with
    every fault.

    >>> read_raters([b"q 0 d7 2\\n", b"q 0 d7 1\\n"], "f")
    {('q', 'd7'): [2.0, 1.0]}
    """
    given: dict[Pair, list[float]] = {}
    faults: list[Fault] = []
    for found in judgements_of(lines, file):
        if isinstance(found, Fault):
            faults.append(found)
            continue
        one: dict[str, dict[str, float]] = {}
        try:
            add_judgement(one, set(), found, max_grade)
        except ValueError as error:
            faults.append(Fault(file, found.line, str(error)))
        for query, items in one.items():
            for item, grade in items.items():
                given.setdefault((query, item), []).append(grade)
    if faults:
        raise FaultyJudgements(faults)
    return given


def grades_by_rater(files: Sequence[dict[Pair, list[float]]]) -> Floats:
    """(pairs, raters), NaN where a rater gave none: a rater for each file, or of one file the
    first grade of each pair is that of the first rater, and so on."""
    if len(files) == 1:
        rows = [*files[0].values()]
    else:
        pairs = dict.fromkeys(pair for given in files for pair in given)
        rows = [[given.get(pair, [np.nan])[0] for given in files] for pair in pairs]
    table = np.full((len(rows), max(map(len, rows), default=0)), np.nan)
    for index, row in enumerate(rows):
        table[index, : len(row)] = row
    return table
