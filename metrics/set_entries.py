"""The part of the catalog over sets: measures of the whole list that know no ranks."""

from collections.abc import Mapping
from functools import partial
from typing import Final

from . import bindings, sets
from .metric import UNBOUNDED, Entry
from .parameters import REL, above, choice, weight

_of_set = partial(Entry, cutoff="none", parameters=REL)

SET_ENTRIES: Final[Mapping[str, Entry]] = {
    "SetP": _of_set(
        bindings.of_table(sets.precision),
        "trec_eval set_P",
        meaning="share of the returned items that are relevant",
    ),
    "SetR": _of_set(
        bindings.of_table(sets.recall),
        "trec_eval set_recall",
        meaning="share of the known relevant items that are returned",
        needs="pool",
    ),
    "SetF": _of_set(
        bindings.set_f,
        "van Rijsbergen 1979; trec_eval set_F",
        meaning="weighted harmonic mean of SetP and SetR",
        needs="pool",
        parameters=REL | {"beta": above(0, 1)},
    ),
    "SetE": _of_set(
        bindings.e_measure,
        "van Rijsbergen 1979",
        meaning="1 - weighted harmonic mean of precision and recall",
        direction="down",
        needs="pool",
        parameters=REL | {"stress": choice("precision", "recall", required=True), "b": above(0, 1)},
    ),
    "SetAccuracy": _of_set(
        bindings.of_table(sets.accuracy),
        "the fourfold table",
        meaning="share of all items that are rightly returned or rightly left out",
        undefined="the collection is empty",
        needs="collection",
    ),
    "Miss": _of_set(
        bindings.of_table(sets.miss),
        "the fourfold table",
        meaning="share of the relevant items that are not returned: 1 - SetR",
        direction="down",
        undefined="nothing is relevant",
        needs="pool",
    ),
    "FalseRate": _of_set(
        bindings.of_table(sets.false_rate),
        "the fourfold table",
        meaning="share of the returned items that are not relevant: 1 - SetP",
        direction="down",
        undefined="the list is empty",
    ),
    "Generality": _of_set(
        bindings.of_table(sets.generality),
        "the fourfold table",
        meaning="share of the collection that is relevant",
        direction="none",
        undefined="the collection is empty",
        needs="collection",
    ),
    "Fallout": _of_set(
        bindings.of_table(sets.fallout),
        "the fourfold table",
        meaning="share of the items that are not relevant that are returned",
        direction="down",
        undefined="everything is relevant",
        needs="collection",
    ),
    "Coverage": _of_set(
        bindings.coverage,
        "Baeza-Yates and Ribeiro-Neto 1999",
        meaning="share of the relevant items known to the user that are returned",
        undefined="the user knew no relevant item",
        needs="known",
    ),
    "Novelty": _of_set(
        bindings.novelty,
        "Baeza-Yates and Ribeiro-Neto 1999",
        meaning="share of the relevant items returned that were new to the user",
        undefined="nothing relevant was returned",
        needs="known",
    ),
    "Utility": _of_set(
        bindings.utility,
        "trec_eval utility",
        meaning="a · relevant returned + b · others returned + c · relevant missed + d · the rest",
        range=UNBOUNDED,
        unit=1_000,
        parameters=REL
        | {"a": weight(1), "b": weight(-1)}
        | {"c": weight(0, "pool"), "d": weight(0, "collection")},
    ),
    "T11U": _of_set(
        bindings.of_table(sets.t11u),
        "TREC-11 filtering track",
        meaning="2 · relevant returned - others returned",
        range=UNBOUNDED,
        unit=1_000,
    ),
    "T11F": _of_set(
        bindings.t11f,
        "TREC-11 filtering track",
        meaning="F of the filtering track: precision weighs twice as much as recall",
        needs="pool",
    ),
}
"""Family -> its entry."""
