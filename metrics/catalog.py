"""The table of metrics: family -> binding, source, range, direction, undefined case, unit, needs.

`parse` resolves a name. README.md shows how to add a metric.
"""

import math
from collections.abc import Mapping
from functools import partial
from typing import Final

from . import behaviour, bindings, curves, err, precision, reciprocal_rank, sets
from .metric import Entry, Metric
from .parameters import BASE, GAIN, IDEAL, PERSISTENCE, REL, above, choice, weight
from .parsing import resolve

UNBOUNDED: Final = (-math.inf, math.inf)
FROM_ZERO: Final = (0.0, math.inf)
_NO_IDEAL = "the ideal is 0: nothing has a gain"
_NO_CLICK = "nothing was clicked"
_NO_PROPENSITIES = "the propensities of the surface are unknown"

_of_set = partial(Entry, cutoff="none", parameters=REL)

CATALOG: Final[Mapping[str, Entry]] = {
    # Binary, by rank
    "P": Entry(
        bindings.precision_at,
        "trec_eval P_k; variant=shown: TensorFlow Ranking precision",
        parameters=REL | {"variant": choice("standard", "shown")},
    ),
    "R": Entry(bindings.recall_at, "trec_eval recall_k", needs="pool", parameters=REL),
    "F": Entry(
        bindings.f_at,
        "van Rijsbergen 1979",
        needs="pool",
        parameters=REL | {"beta": above(0, 1), "variant": choice("standard", "shown")},
    ),
    "Success": Entry(
        lambda lists, metric: precision.success(
            bindings.relevant(lists, metric), metric.ranks(lists)
        ),
        "trec_eval success_k",
        parameters=REL,
    ),
    "RR": Entry(
        lambda lists, metric: reciprocal_rank.reciprocal_rank(
            bindings.relevant(lists, metric), metric.ranks(lists)
        ),
        "Voorhees 1999; trec_eval recip_rank",
        parameters=REL,
    ),
    "AP": Entry(
        bindings.average_precision_at,
        "trec_eval map, map_cut_k; variant=returned: Baeza-Yates and Ribeiro-Neto 1999",
        parameters=REL | {"variant": choice("standard", "returned", "11pt")},
    ),
    "Rprec": Entry(
        lambda lists, metric: precision.r_precision(
            bindings.relevant(lists, metric), bindings.known_relevant(lists, metric)
        ),
        "trec_eval Rprec",
        needs="pool",
        cutoff="none",
        parameters=REL,
    ),
    "BreakEven": Entry(
        lambda lists, metric: curves.break_even_point(
            bindings.relevant(lists, metric), bindings.known_relevant(lists, metric)
        ),
        "van Rijsbergen 1979",
        needs="pool",
        cutoff="none",
        parameters=REL,
    ),
    "IPrec": Entry(
        bindings.interpolated_precision,
        "trec_eval iprec_at_recall, with an exact recall test",
        needs="pool",
        cutoff="recall",
        parameters=REL,
    ),
    "Bpref": Entry(
        bindings.binary_preference,
        "Buckley and Voorhees 2004; trec_eval bpref",
        needs="pool",
        cutoff="none",
        parameters=REL | {"variant": choice("latest", "original", "10")},
    ),
    "RBP": Entry(
        lambda lists, metric: err.rank_biased_precision(
            bindings.relevant(lists, metric), metric.ranks(lists), metric.number("p")
        ),
        "Moffat and Zobel 2008",
        parameters=PERSISTENCE | REL,
    ),
    "Judged": Entry(
        bindings.judged_at,
        "ir_measures Judged@k",
        direction="none",
        undefined="the list is empty",
    ),
    # Graded
    "CG": Entry(
        bindings.cumulated_gain,
        "Järvelin and Kekäläinen 2002",
        range=UNBOUNDED,
        unit=1_000,
    ),
    "DCG": Entry(
        bindings.discounted_gain,
        "Järvelin and Kekäläinen 2002; Burges et al. 2005",
        range=FROM_ZERO,
        unit=1_000,
        parameters=GAIN | BASE,
    ),
    "nCG": Entry(
        bindings.normalised_gain,
        "Järvelin and Kekäläinen 2002",
        undefined=_NO_IDEAL,
        parameters={"gain": choice("linear", "exponential")} | IDEAL,
    ),
    "nDCG": Entry(
        bindings.normalised_discounted_gain,
        "Järvelin and Kekäläinen 2002; Burges et al. 2005; trec_eval ndcg_cut_k (gain=linear)",
        undefined=_NO_IDEAL,
        parameters=GAIN | IDEAL | BASE,
    ),
    "ERR": Entry(
        bindings.expected_reciprocal_rank,
        "Chapelle et al. 2009; gdeval err@k",
        parameters={
            "max_grade": above(0, 1),
            "discount": choice("reciprocal", "log2"),
        },
    ),
    # Weighted by inverse propensities: by how rarely a rank is examined
    "IPS-P": Entry(
        bindings.ips_precision_at,
        "Joachims, Swaminathan and Schnabel 2017",
        range=FROM_ZERO,
        undefined=_NO_PROPENSITIES,
        unit=100_000,
        needs="propensities",
        parameters=REL,
    ),
    "IPS-DCG": Entry(
        bindings.ips_discounted_gain,
        "Agarwal, Takatsu, Zaitsev and Joachims 2019",
        range=FROM_ZERO,
        undefined=_NO_PROPENSITIES,
        unit=1_000,
        needs="propensities",
        parameters=GAIN | BASE,
    ),
    # Sets
    "SetP": _of_set(bindings.of_table(sets.precision), "trec_eval set_P"),
    "SetR": _of_set(
        bindings.of_table(sets.recall),
        "trec_eval set_recall",
        needs="pool",
    ),
    "SetF": _of_set(
        bindings.set_f,
        "van Rijsbergen 1979; trec_eval set_F",
        needs="pool",
        parameters=REL | {"beta": above(0, 1)},
    ),
    "SetE": _of_set(
        bindings.e_measure,
        "van Rijsbergen 1979",
        direction="down",
        needs="pool",
        parameters=REL | {"stress": choice("precision", "recall", required=True), "b": above(0, 1)},
    ),
    "SetAccuracy": _of_set(
        bindings.of_table(sets.accuracy),
        "the fourfold table",
        undefined="the collection is empty",
        needs="collection",
    ),
    "Miss": _of_set(
        bindings.of_table(sets.miss),
        "the fourfold table",
        direction="down",
        undefined="nothing is relevant",
        needs="pool",
    ),
    "FalseRate": _of_set(
        bindings.of_table(sets.false_rate),
        "the fourfold table",
        direction="down",
        undefined="the list is empty",
    ),
    "Generality": _of_set(
        bindings.of_table(sets.generality),
        "the fourfold table",
        direction="none",
        undefined="the collection is empty",
        needs="collection",
    ),
    "Fallout": _of_set(
        bindings.of_table(sets.fallout),
        "the fourfold table",
        direction="down",
        undefined="everything is relevant",
        needs="collection",
    ),
    "Coverage": _of_set(
        bindings.coverage,
        "Baeza-Yates and Ribeiro-Neto 1999",
        undefined="the user knew no relevant item",
        needs="known",
    ),
    "Novelty": _of_set(
        bindings.novelty,
        "Baeza-Yates and Ribeiro-Neto 1999",
        undefined="nothing relevant was returned",
        needs="known",
    ),
    "Utility": _of_set(
        bindings.utility,
        "trec_eval utility",
        range=UNBOUNDED,
        unit=1_000,
        parameters=REL
        | {"a": weight(1), "b": weight(-1)}
        | {"c": weight(0, "pool"), "d": weight(0, "collection")},
    ),
    "T11U": _of_set(
        bindings.of_table(sets.t11u),
        "TREC-11 filtering track",
        range=UNBOUNDED,
        unit=1_000,
    ),
    "T11F": _of_set(
        bindings.t11f,
        "TREC-11 filtering track",
        needs="pool",
    ),
    # User behaviour
    "Clicks": Entry(bindings.clicks, "clicks per search", range=FROM_ZERO, unit=1_000),
    "ClickShare": Entry(bindings.click_share, "share of clicks by rank", undefined=_NO_CLICK),
    "FirstClickRank": Entry(
        lambda lists, metric: behaviour.first_click_rank(bindings.clicked(lists)),
        "rank of the first click",
        range=(1.0, math.inf),
        direction="down",
        undefined=_NO_CLICK,
        unit=1_000,
        cutoff="none",
    ),
    "Abandonment": Entry(
        lambda lists, metric: behaviour.abandonment(bindings.clicked(lists), lists.lengths),
        "searches left without a click",
        direction="down",
        undefined="the list is empty",
        cutoff="none",
    ),
    "ZeroResults": Entry(
        lambda lists, metric: behaviour.zero_results(lists.lengths),
        "searches that found nothing",
        direction="down",
        cutoff="none",
    ),
    "FirstFeedbackSeconds": Entry(
        bindings.first_feedback_seconds,
        "time to the first feedback",
        range=UNBOUNDED,
        direction="down",
        undefined="no feedback came",
        unit=1_000,
        needs="timing",
        cutoff="none",
    ),
}


def parse(
    name: str, *, relevant_from: float = 1, max_grade: float = 1, ideal: str = "list"
) -> Metric:
    """Resolve a metric name such as `nDCG(gain=linear)@10`.

    `relevant_from`, `max_grade` and `ideal` are used if the name states no `rel`, `max_grade` or
    `ideal`. Raises ValueError with the value and the rule; for an unknown name it suggests one.

    >>> parse("P( rel = 2 )@5").name
    'P(rel=2)@5'
    >>> parse("nDCG(gain=exponential)@10").name
    'nDCG@10'
    """
    return resolve(
        name, CATALOG, configured={"rel": relevant_from, "max_grade": max_grade}, ideal=ideal
    )
