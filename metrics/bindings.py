"""Bindings: from `Lists` and a metric's settings to the arguments of its kernel.

The entries of the catalog name them. Each takes lists and metric and returns (n,) values.
"""

from collections.abc import Callable
from fractions import Fraction
from typing import TypeAlias

import numpy as np

from . import behaviour, binary, graded, propensities, sets
from .lists import Booleans, Floats, Integers, Lists, ratio
from .metric import Metric
from .spelling import number_text

TableFormula: TypeAlias = Callable[[sets.Contingency, Metric], Floats]
"""Of a set metric: (n,) values of the fourfold tables of n queries."""


def relevant(lists: Lists, metric: Metric) -> Booleans:
    """(n, depth) whether the grade of the item is at least the metric's `rel`."""
    return lists.gains >= metric.number("rel")


def known_relevant(lists: Lists, metric: Metric) -> Integers:
    """(n,) number of items known to be relevant: in the pool if there is one, else in the list."""
    if lists.pool is None:
        return binary.hits(relevant(lists, metric), lists.depth)
    return _count(lists.pool >= metric.number("rel"))


def contingency(lists: Lists, metric: Metric) -> sets.Contingency:
    """The fourfold table of the items shown; 0 in cells for which the lists have no data."""
    returned = binary.hits(relevant(lists, metric), lists.depth)
    missed = np.maximum(known_relevant(lists, metric) - returned, 0)
    nonrelevant = lists.lengths - returned
    rest = np.zeros_like(returned)
    if lists.collection_size is not None:
        rest = lists.collection_size - returned - nonrelevant - missed
        if (rest < 0).any():
            raise ValueError(
                f"collection_size={lists.collection_size[int(rest.argmin())]}:"
                " must be >= the items shown and the relevant items missed together"
            )
    return sets.Contingency(returned, nonrelevant, missed, rest)


def _count(flags: Booleans) -> Integers:
    counts: Integers = np.count_nonzero(flags, axis=1).astype(np.int64)
    return counts


def precision_at(lists: Lists, metric: Metric) -> Floats:
    """P; without a cut-off, divided by the items shown."""
    if metric.k is None or metric.word("variant") == "shown":
        k = lists.depth if metric.k is None else metric.k
        return binary.precision_of_shown(relevant(lists, metric), lists.lengths, k)
    return binary.precision(relevant(lists, metric), metric.k)


def recall_at(lists: Lists, metric: Metric) -> Floats:
    """R."""
    return binary.recall(
        relevant(lists, metric), known_relevant(lists, metric), metric.ranks(lists)
    )


def f_at(lists: Lists, metric: Metric) -> Floats:
    """F, of P@k and R@k."""
    return sets.f_measure(
        precision_at(lists, metric), recall_at(lists, metric), metric.number("beta")
    )


def e_measure(table: sets.Contingency, metric: Metric) -> Floats:
    """SetE, in the convention that the name states."""
    conventions = {"precision": sets.e_precision_weighted, "recall": sets.e_recall_weighted}
    formula = conventions[metric.word("stress")]
    return formula(sets.precision(table), sets.recall(table), metric.number("b"))


def of_table(formula: Callable[[sets.Contingency], Floats]) -> TableFormula:
    """The formula of a set metric without settings."""
    return lambda table, metric: formula(table)


def set_f(table: sets.Contingency, metric: Metric) -> Floats:
    """SetF."""
    return sets.f_measure(sets.precision(table), sets.recall(table), metric.number("beta"))


def t11f(table: sets.Contingency, metric: Metric) -> Floats:
    """T11F."""
    return sets.t11f(sets.precision(table), sets.recall(table))


def utility(table: sets.Contingency, metric: Metric) -> Floats:
    """Utility, with the four weights of the name."""
    weights = [metric.number(key) for key in "abcd"]
    return sets.utility(table, *weights)


def _returned_known(lists: Lists, metric: Metric) -> tuple[Integers, Integers]:
    mask = relevant(lists, metric)
    known = np.zeros_like(mask) if lists.known is None else lists.known
    return _count(mask & known), _count(mask & ~known)


def coverage(lists: Lists, metric: Metric) -> Floats:
    """Coverage."""
    returned, _ = _returned_known(lists, metric)
    before = returned if lists.known_relevant is None else lists.known_relevant
    return sets.coverage(returned, before)


def novelty(lists: Lists, metric: Metric) -> Floats:
    """Novelty."""
    return sets.novelty(*_returned_known(lists, metric))


def average_precision_at(lists: Lists, metric: Metric) -> Floats:
    """AP, in the variant that the name states."""
    mask, k = relevant(lists, metric), metric.ranks(lists)
    variant = metric.word("variant")
    if variant == "returned":
        return binary.average_precision_of_returned(mask, k)
    total = known_relevant(lists, metric)
    if variant == "11pt":
        return behaviour.eleven_point_average(mask, total, k)
    return binary.average_precision(mask, total, k)


def interpolated_precision(lists: Lists, metric: Metric) -> Floats:
    """IPrec, at the recall level of the name."""
    level = Fraction(metric.word("recall"))
    return behaviour.interpolated_precision(
        relevant(lists, metric), known_relevant(lists, metric), level, lists.depth
    )


def binary_preference(lists: Lists, metric: Metric) -> Floats:
    """Bpref, in the variant that the name states."""
    mask, total = relevant(lists, metric), known_relevant(lists, metric)
    nonrelevant = lists.judged & ~mask
    variant = metric.word("variant")
    if variant == "original":
        return binary.bpref_original(mask, nonrelevant, total)
    if variant == "10":
        return binary.bpref_10(mask, nonrelevant, total)
    pool = np.zeros((len(lists), 0)) if lists.pool is None else lists.pool
    return binary.bpref(mask, nonrelevant, total, _count(pool < metric.number("rel")))


def _assessed(lists: Lists) -> Booleans:
    return lists.judged if lists.assessed is None else lists.assessed


def judged_at(lists: Lists, metric: Metric) -> Floats:
    """Judged."""
    return binary.judged_share(_assessed(lists), lists.lengths, metric.ranks(lists))


def rank_biased_residual(lists: Lists, metric: Metric) -> Floats:
    """RBPResidual."""
    return graded.rank_biased_residual(_assessed(lists), metric.ranks(lists), metric.number("p"))


def _gain(metric: Metric, *grades: Floats) -> graded.Gain:
    """The gain function for these grades; negative ones count as 0, to keep nDCG in 0…1."""
    gain = {"linear": graded.linear_gain, "exponential": graded.exponential_gain}[
        metric.word("gain")
    ]
    negative = any(array.min(initial=0.0) < 0 for array in grades)
    return graded.not_below_zero(gain) if negative else gain


def _discount(metric: Metric) -> graded.Discount:
    base = metric.number("jk")
    return graded.base_discount(base) if base else graded.log2_discount


def cumulated_gain(lists: Lists, metric: Metric) -> Floats:
    """CG, of the grades as they are, also negative ones."""
    return graded.dcg(lists.gains, metric.ranks(lists), graded.linear_gain, graded.no_discount)


def discounted_gain(lists: Lists, metric: Metric) -> Floats:
    """DCG."""
    return graded.dcg(
        lists.gains, metric.ranks(lists), _gain(metric, lists.gains), _discount(metric)
    )


def _weights(lists: Lists) -> Floats:
    """(n, at least depth) weights of the ranks; `Metric.values` has checked that there are some."""
    assert lists.weights is not None
    return lists.weights


def _nan_where_unknown(lists: Lists, values: Floats) -> Floats:
    """The values, NaN where propensities are unknown, also for empty lists."""
    return np.where(np.isnan(_weights(lists)[:, 0]), np.nan, values)


def ips_precision_at(lists: Lists, metric: Metric) -> Floats:
    """IPS-P; without a cut-off, divided by the items shown."""
    mask, weights = relevant(lists, metric), _weights(lists)
    if metric.k is None:
        values = propensities.ips_precision_of_shown(mask, lists.lengths, weights)
    else:
        values = propensities.ips_precision(mask, metric.k, weights)
    return _nan_where_unknown(lists, values)


def ips_discounted_gain(lists: Lists, metric: Metric) -> Floats:
    """IPS-DCG."""
    gain, discount = _gain(metric, lists.gains), _discount(metric)
    k, weights = metric.ranks(lists), _weights(lists)
    values = propensities.ips_dcg(lists.gains, k, weights, gain, discount)
    return _nan_where_unknown(lists, values)


def normalised_gain(lists: Lists, metric: Metric) -> Floats:
    """nCG."""
    return _normalised(lists, metric, graded.no_discount)


def normalised_discounted_gain(lists: Lists, metric: Metric) -> Floats:
    """nDCG."""
    return _normalised(lists, metric, _discount(metric))


def _normalised(lists: Lists, metric: Metric, discount: graded.Discount) -> Floats:
    """DCG divided by that of the ideal order of the list itself, or of the pool."""
    pool = lists.gains
    if metric.word("ideal") == "pool" and lists.pool is not None:
        pool = np.nan_to_num(lists.pool, nan=0.0)
    # The ideal of a pool may be longer than any list shown.
    k = max(lists.depth, pool.shape[1]) if metric.k is None else metric.k
    gain = _gain(metric, lists.gains, *([] if pool is lists.gains else [pool]))
    actual = graded.dcg(lists.gains, k, gain, discount)
    return graded.ndcg(actual, graded.best_dcg(pool, k, gain, discount))


def expected_reciprocal_rank(lists: Lists, metric: Metric) -> Floats:
    """ERR. Raises ValueError for a grade above the highest of the scale."""
    max_grade = metric.number("max_grade")
    highest = float(lists.gains.max(initial=0.0))
    if highest > max_grade:
        raise ValueError(
            f"{metric.name}: grade {number_text(highest)} is above"
            f" max_grade={number_text(max_grade)}, the highest of the scale"
        )
    discounts = {"reciprocal": graded.reciprocal, "log2": _inverse_log2}
    discount = discounts[metric.word("discount")]
    stop = graded.stop_probability(max_grade)
    return graded.cascade(
        lists.gains, metric.ranks(lists), lambda gains: stop(np.maximum(gains, 0.0)), discount
    )


def _inverse_log2(rank: int) -> float:
    return 1.0 / graded.log2_discount(rank)


def clicked(lists: Lists) -> Booleans:
    """(n, depth) whether the item has a gain above 0."""
    return lists.gains > 0


def first_feedback_seconds(lists: Lists, metric: Metric) -> Floats:
    """FirstFeedbackSeconds, as in the lists."""
    undefined = np.full(len(lists), np.nan)
    return undefined if lists.first_feedback_s is None else lists.first_feedback_s


def clicks(lists: Lists, metric: Metric) -> Floats:
    """Clicks."""
    return behaviour.clicks(clicked(lists), metric.ranks(lists))


def click_share(lists: Lists, metric: Metric) -> Floats:
    """ClickShare."""
    return behaviour.click_share(clicked(lists), metric.ranks(lists))


def _novelty(lists: Lists, metric: Metric) -> tuple[Booleans, Booleans]:
    """What the items shown, and what all judged ones, are relevant to: (n, items, subtopics)."""
    assert lists.subtopics is not None and lists.pool_subtopics is not None
    least = metric.number("rel")
    return lists.subtopics >= least, lists.pool_subtopics >= least


def alpha_ndcg(lists: Lists, metric: Metric) -> Floats:
    """alpha_nDCG."""
    (shown, pool), alpha = _novelty(lists, metric), metric.number("alpha")
    k = max(shown.shape[1], pool.shape[1]) if metric.k is None else metric.k
    actual, best = graded.novel_gains(shown, k, alpha), graded.best_novel_gains(pool, k, alpha)
    return graded.ndcg(*(graded.dcg(gains, k, graded.linear_gain) for gains in (actual, best)))


def intent_aware_err(lists: Lists, metric: Metric) -> Floats:
    """ERR_IA, divided by that of a list of which each item is relevant to all subtopics."""
    (shown, pool), alpha = _novelty(lists, metric), metric.number("alpha")
    k = shown.shape[1] if metric.k is None else metric.k
    gains = graded.novel_gains(shown, k, alpha)
    actual = graded.dcg(gains, k, graded.linear_gain, float)
    subtopics = np.count_nonzero(pool.any(axis=1), axis=1)
    best = np.cumsum([(1.0 - alpha) ** rank0 / (rank0 + 1) for rank0 in range(max(k, 1))])
    ends = np.maximum(lists.lengths, 1) if metric.k is None else np.full(len(lists), k)
    return ratio(actual, subtopics * best[ends - 1], np.nan)
