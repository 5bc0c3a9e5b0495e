"""The table of metrics: family -> binding, meaning, source, range, direction, undefined case, unit,
needs. Those over sets, without ranks, stand first.

`parse` resolves a name. README.md shows how to add a metric.

The part of the catalog over sets: measures of the whole list that know no ranks.
"""

import math
from collections.abc import Mapping
from functools import partial
from typing import Any, Final

from . import behaviour, binary, bindings, graded, sets
from .metric import (
    ALPHA,
    BASE,
    FROM_ZERO,
    GAIN,
    IDEAL,
    PERSISTENCE,
    REL,
    UNBOUNDED,
    Entry,
    Metric,
    above,
    choice,
    resolve,
    weight,
)

_of_set = partial(Entry, cutoff="none", parameters=REL)


def _of_table(formula: bindings.TableFormula, source: str, **more: Any) -> Entry:
    """The entry of a metric that needs the fourfold table only."""
    return _of_set(
        lambda lists, metric: formula(bindings.contingency(lists, metric), metric),
        source,
        pooled=lambda lists, metric: formula(bindings.contingency(lists, metric).pooled(), metric),
        **more,
    )


SET_ENTRIES: Final[Mapping[str, Entry]] = {
    "SetP": _of_table(
        bindings.of_table(sets.precision),
        "trec_eval set_P",
        meaning="share of the returned items that are relevant",
    ),
    "SetR": _of_table(
        bindings.of_table(sets.recall),
        "trec_eval set_recall",
        meaning="share of the known relevant items that are returned",
        needs="pool",
    ),
    "SetF": _of_table(
        bindings.set_f,
        "van Rijsbergen 1979; trec_eval set_F",
        meaning="weighted harmonic mean of SetP and SetR",
        needs="pool",
        parameters=REL | {"beta": above(0, 1)},
    ),
    "SetE": _of_table(
        bindings.e_measure,
        "van Rijsbergen 1979",
        meaning="1 - weighted harmonic mean of precision and recall",
        direction="down",
        needs="pool",
        parameters=REL | {"stress": choice("precision", "recall", required=True), "b": above(0, 1)},
    ),
    "SetAccuracy": _of_table(
        bindings.of_table(sets.accuracy),
        "the fourfold table",
        meaning="share of all items that are rightly returned or rightly left out",
        undefined="the collection is empty",
        needs="collection",
    ),
    "Miss": _of_table(
        bindings.of_table(sets.miss),
        "the fourfold table",
        meaning="share of the relevant items that are not returned: 1 - SetR",
        direction="down",
        undefined="nothing is relevant",
        needs="pool",
    ),
    "FalseRate": _of_table(
        bindings.of_table(sets.false_rate),
        "the fourfold table",
        meaning="share of the returned items that are not relevant: 1 - SetP",
        direction="down",
        undefined="the list is empty",
    ),
    "Generality": _of_table(
        bindings.of_table(sets.generality),
        "the fourfold table",
        meaning="share of the collection that is relevant",
        direction="none",
        undefined="the collection is empty",
        needs="collection",
    ),
    "Fallout": _of_table(
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
    "Utility": _of_table(
        bindings.utility,
        "trec_eval utility",
        meaning="a · relevant returned + b · others returned + c · relevant missed + d · the rest",
        range=UNBOUNDED,
        unit=1_000,
        parameters=REL
        | {"a": weight(1), "b": weight(-1)}
        | {"c": weight(0, "pool"), "d": weight(0, "collection")},
    ),
    "T11U": _of_table(
        bindings.of_table(sets.t11u),
        "TREC-11 filtering track",
        meaning="2 · relevant returned - others returned",
        range=UNBOUNDED,
        unit=1_000,
    ),
    "T11F": _of_table(
        bindings.t11f,
        "TREC-11 filtering track",
        meaning="F of the filtering track: precision weighs twice as much as recall",
        needs="pool",
    ),
}
"""Family -> its entry."""


_NO_IDEAL = "nothing has a gain"
_NO_CLICK = "nothing was clicked"
_NO_SUBTOPIC = "nothing is relevant"
_NO_PROPENSITIES = "propensities are unknown"

CATALOG: Final[Mapping[str, Entry]] = {
    # Binary, by rank
    "P": Entry(
        bindings.precision_at,
        "trec_eval P_k; variant=shown: TensorFlow Ranking precision",
        meaning="share of the first k items that are relevant",
        parameters=REL | {"variant": choice("standard", "shown")},
    ),
    "R": Entry(
        bindings.recall_at,
        "trec_eval recall_k",
        meaning="share of the known relevant items that are among the first k",
        needs="pool",
        parameters=REL,
    ),
    "F": Entry(
        bindings.f_at,
        "van Rijsbergen 1979",
        meaning="weighted harmonic mean of P and R",
        needs="pool",
        parameters=REL | {"beta": above(0, 1), "variant": choice("standard", "shown")},
    ),
    "Success": Entry(
        lambda lists, metric: binary.success(bindings.relevant(lists, metric), metric.ranks(lists)),
        "trec_eval success_k",
        meaning="1 if any of the first k items is relevant, else 0",
        parameters=REL,
    ),
    "RR": Entry(
        lambda lists, metric: binary.reciprocal_rank(
            bindings.relevant(lists, metric), metric.ranks(lists)
        ),
        "Voorhees 1999; trec_eval recip_rank",
        meaning="1 / rank of the first relevant item, 0 without one; its mean is MRR",
        parameters=REL,
    ),
    "AP": Entry(
        bindings.average_precision_at,
        "trec_eval map, map_cut_k; variant=returned: Baeza-Yates and Ribeiro-Neto 1999",
        meaning="mean over the known relevant items of P at their ranks; its mean is MAP",
        parameters=REL | {"variant": choice("standard", "returned", "11pt")},
    ),
    "Rprec": Entry(
        lambda lists, metric: binary.r_precision(
            bindings.relevant(lists, metric), bindings.known_relevant(lists, metric)
        ),
        "trec_eval Rprec",
        meaning="P at the rank that equals the number of known relevant items",
        needs="pool",
        cutoff="none",
        parameters=REL,
    ),
    "BreakEven": Entry(
        lambda lists, metric: behaviour.break_even_point(
            bindings.relevant(lists, metric), bindings.known_relevant(lists, metric)
        ),
        "van Rijsbergen 1979",
        meaning="the value at which precision equals recall",
        needs="pool",
        cutoff="none",
        parameters=REL,
    ),
    "IPrec": Entry(
        bindings.interpolated_precision,
        "trec_eval iprec_at_recall, with an exact recall test",
        meaning="highest precision at this recall or above",
        needs="pool",
        cutoff="recall",
        parameters=REL,
    ),
    "Bpref": Entry(
        bindings.binary_preference,
        "Buckley and Voorhees 2004; trec_eval bpref",
        meaning="how seldom items judged not relevant stand above relevant ones",
        needs="pool",
        cutoff="none",
        parameters=REL | {"variant": choice("latest", "original", "10")},
    ),
    "RBP": Entry(
        lambda lists, metric: graded.rank_biased_precision(
            bindings.relevant(lists, metric), metric.ranks(lists), metric.number("p")
        ),
        "Moffat and Zobel 2008",
        meaning="expected relevance for a user who goes on to the next rank with probability p",
        parameters=PERSISTENCE | REL,
    ),
    "RBPResidual": Entry(
        bindings.rank_biased_residual,
        "Moffat and Zobel 2008",
        meaning="what RBP would gain if all unjudged items were relevant",
        direction="none",
        parameters=PERSISTENCE,
    ),
    "AUC": Entry(
        lambda lists, metric: binary.roc_area(bindings.relevant(lists, metric), lists.lengths),
        "Hanley and McNeil 1982",
        meaning="how often a relevant item stands above another",
        undefined="all or nothing is relevant",
        cutoff="none",
        parameters=REL,
    ),
    "Judged": Entry(
        bindings.judged_at,
        "ir_measures Judged@k",
        meaning="share of the items shown that have a judgement",
        direction="none",
        undefined="the list is empty",
    ),
    # Graded
    "CG": Entry(
        bindings.cumulated_gain,
        "Järvelin and Kekäläinen 2002",
        meaning="sum of the grades of the first k items",
        range=UNBOUNDED,
        unit=1_000,
    ),
    "DCG": Entry(
        bindings.discounted_gain,
        "Järvelin and Kekäläinen 2002; Burges et al. 2005",
        meaning="sum of the gains of the first k items, each discounted by its rank",
        range=FROM_ZERO,
        unit=1_000,
        parameters=GAIN | BASE,
    ),
    "nCG": Entry(
        bindings.normalised_gain,
        "Järvelin and Kekäläinen 2002",
        meaning="CG divided by that of the best order",
        undefined=_NO_IDEAL,
        parameters={"gain": choice("linear", "exponential")} | IDEAL,
    ),
    "nDCG": Entry(
        bindings.normalised_discounted_gain,
        "Järvelin and Kekäläinen 2002; Burges et al. 2005; trec_eval ndcg_cut_k (gain=linear)",
        meaning="DCG divided by that of the best order",
        undefined=_NO_IDEAL,
        parameters=GAIN | IDEAL | BASE,
    ),
    "ERR": Entry(
        bindings.expected_reciprocal_rank,
        "Chapelle et al. 2009; gdeval err@k",
        meaning="expected 1 / rank at which a user who reads from the top is satisfied",
        parameters={
            "max_grade": above(0, 1),
            "discount": choice("reciprocal", "log2"),
        },
    ),
    # Of subtopics
    "alpha_nDCG": Entry(
        bindings.alpha_ndcg,
        "Clarke et al. 2008; ndeval alpha-nDCG@k, with its greedy ideal",
        meaning="nDCG of subtopics, each worth less with every item that was relevant to it",
        range=FROM_ZERO,
        undefined=_NO_SUBTOPIC,
        unit=100_000,
        needs="subtopics",
        parameters=ALPHA | REL,
    ),
    "ERR_IA": Entry(
        bindings.intent_aware_err,
        "Chapelle et al. 2009; Clarke et al. 2011; ndeval ERR-IA@k",
        meaning="ERR of subtopics, divided by that of items relevant to all of them",
        undefined=_NO_SUBTOPIC,
        needs="subtopics",
        parameters=ALPHA | REL,
    ),
    # Weighted by inverse propensities: by how rarely a rank is examined
    "IPS-P": Entry(
        bindings.ips_precision_at,
        "Joachims, Swaminathan and Schnabel 2017",
        meaning="P with each relevant item weighted by 1 / propensity of its rank",
        range=FROM_ZERO,
        undefined=_NO_PROPENSITIES,
        unit=100_000,
        needs="propensities",
        parameters=REL,
    ),
    "IPS-DCG": Entry(
        bindings.ips_discounted_gain,
        "Agarwal, Takatsu, Zaitsev and Joachims 2019",
        meaning="DCG with each gain weighted by 1 / propensity of its rank",
        range=FROM_ZERO,
        undefined=_NO_PROPENSITIES,
        unit=1_000,
        needs="propensities",
        parameters=GAIN | BASE,
    ),
    **SET_ENTRIES,
    # User behaviour
    "Clicks": Entry(
        bindings.clicks,
        "clicks per search",
        meaning="number of items with a gain among the first k",
        range=FROM_ZERO,
        unit=1_000,
    ),
    "ClickShare": Entry(
        bindings.click_share,
        "share of clicks by rank",
        meaning="share of the items with a gain that are among the first k",
        undefined=_NO_CLICK,
    ),
    "FirstClickRank": Entry(
        lambda lists, metric: behaviour.first_click_rank(bindings.clicked(lists)),
        "rank of the first click",
        meaning="rank of the highest item with a gain",
        range=(1.0, math.inf),
        direction="down",
        undefined=_NO_CLICK,
        unit=1_000,
        cutoff="none",
    ),
    "Abandonment": Entry(
        lambda lists, metric: behaviour.abandonment(bindings.clicked(lists), lists.lengths),
        "searches left without a click",
        meaning="1 if no item of a list with results got a gain, else 0; 1 - its mean is the CTR",
        direction="down",
        undefined="the list is empty",
        cutoff="none",
    ),
    "ZeroResults": Entry(
        lambda lists, metric: behaviour.zero_results(lists.lengths),
        "searches that found nothing",
        meaning="1 if the list is empty, else 0",
        direction="down",
        cutoff="none",
    ),
    "FirstFeedbackSeconds": Entry(
        bindings.first_feedback_seconds,
        "time to the first feedback",
        meaning="seconds from the search to the first feedback",
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
