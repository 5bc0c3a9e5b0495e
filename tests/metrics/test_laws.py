"""Laws that every metric of the catalog obeys; a new entry is tested without a new test."""

from dataclasses import replace
from typing import Final

import numpy as np
import pytest

from relevanced.metrics import CATALOG, Entry, Floats, Lists, Metric, parse, resolve
from tests.metrics.batches import MAX_GRADE, every_metric, family_names, random_rows
from tests.metrics.oracles import ORACLES, Plain, as_lists, value

TOLERANCE: Final = 1e-12
METRICS: Final = list(every_metric())
EVERY: Final = pytest.mark.parametrize(
    ("family", "metric"), METRICS, ids=[metric.name for _, metric in METRICS]
)


def same(left: Floats, right: Floats) -> bool:
    """Whether both are equal to the last bit, with NaN at the same rows."""
    return bool(np.array_equal(left, right, equal_nan=True))


def reordered(row: Plain, order: list[int]) -> Plain:
    """The same items shown in another order."""
    return replace(
        row,
        grades=[row.grades[rank0] for rank0 in order],
        known=[row.known[rank0] for rank0 in order],
    )


def by_gain(row: Plain, best_first: bool) -> Plain:
    """The items sorted by grade; of equal ones, unjudged before judged not relevant."""
    sign = -1 if best_first else 1
    order = sorted(
        range(len(row.grades)),
        key=lambda rank0: (sign * (row.grades[rank0] or 0), row.grades[rank0] is not None),
    )
    return reordered(row, order)


def goodness(metric: Metric, rows: list[Plain]) -> Floats:
    """The values with the sign under which higher is better; 0 where undefined.

    Also 0 for metrics with propensities, in which items at lower ranks weigh more on purpose, and
    of subtopics, which are not ordered by the grades.
    """
    sign = {"up": 1.0, "down": -1.0, "none": 0.0}[metric.direction]
    sign *= metric.needs not in ("propensities", "subtopics")
    return sign * np.nan_to_num(metric.values(as_lists(rows)), nan=0.0)


def test_every_family_has_an_oracle() -> None:
    assert set(ORACLES) == set(CATALOG)


def test_every_family_says_what_it_means() -> None:
    meanings = [entry.meaning for entry in CATALOG.values()]
    assert all(20 < len(meaning) < 90 for meaning in meanings)
    assert len(set(meanings)) == len(meanings)


def needs_no_cutoff(metric: Metric, lists: Lists) -> None:
    """Fails with advice for a binding that needs the k of a name without @k."""
    try:
        metric.values(lists)
    except Exception as error:
        pytest.fail(
            f"{metric.name} fails without @k: {error!r}. Its binding must take metric.ranks(lists),"
            " the whole list where the name has no @k, instead of metric.k; or its entry must set"
            ' cutoff="none"',
            pytrace=False,
        )


@pytest.mark.parametrize("family", [name for name, e in CATALOG.items() if e.cutoff == "rank"])
def test_metric_that_takes_k_works_without_it(family: str, rng: np.random.Generator) -> None:
    metric = parse(family_names(family, CATALOG[family])[-1], max_grade=MAX_GRADE)
    assert metric.k is None
    needs_no_cutoff(metric, as_lists(random_rows(rng, 20, 9)))


def test_binding_that_needs_k_gets_advice() -> None:
    def mean(lists: Lists, metric: Metric) -> Floats:
        return lists.gains.sum(axis=1) / metric.k  # type: ignore

    entry = Entry(mean, "", meaning="")
    with pytest.raises(pytest.fail.Exception, match=r"Mean fails without @k.*metric\.ranks"):
        needs_no_cutoff(resolve("Mean", {"Mean": entry}, configured={}), Lists.of([[1, 0]]))


@EVERY
@pytest.mark.parametrize("depth", [1, 4, 13])
def test_metric_equals_its_definition(
    family: str, metric: Metric, depth: int, rng: np.random.Generator
) -> None:
    rows = random_rows(rng, 60, depth, halves=depth == 4)
    expected = [value(family, row, metric) for row in rows]
    found = metric.values(as_lists(rows))
    np.testing.assert_allclose(found, expected, rtol=TOLERANCE, atol=TOLERANCE)


@EVERY
def test_value_stays_in_the_range(family: str, metric: Metric, rng: np.random.Generator) -> None:
    values = metric.values(as_lists(random_rows(rng, 200, 9)))
    least, most = metric.entry.range
    defined = values[~np.isnan(values)]
    assert ((least <= defined) & (defined <= most)).all()
    assert len(defined) == 200 or metric.entry.undefined != "never"


@EVERY
def test_batch_equals_row_by_row(family: str, metric: Metric, rng: np.random.Generator) -> None:
    rows = random_rows(rng, 50, 9, halves=bool(rng.integers(2)))
    alone = np.concatenate([metric.values(as_lists([row])) for row in rows])
    assert same(metric.values(as_lists(rows)), alone)


@EVERY
def test_padding_changes_nothing(family: str, metric: Metric, rng: np.random.Generator) -> None:
    lists = as_lists(random_rows(rng, 50, 9))
    assert lists.pool is not None and lists.known is not None and lists.weights is not None
    wider = replace(
        lists,
        gains=np.pad(lists.gains, ((0, 0), (0, 30))),
        judged=np.pad(lists.judged, ((0, 0), (0, 30))),
        known=np.pad(lists.known, ((0, 0), (0, 30))),
        weights=np.pad(lists.weights, ((0, 0), (0, 30)), mode="edge"),
        pool=np.pad(lists.pool, ((0, 0), (0, 30)), constant_values=np.nan),
    )
    assert same(metric.values(wider), metric.values(lists))


@EVERY
def test_counters_of_pieces_add_up_to_those_of_the_batch(
    family: str, metric: Metric, rng: np.random.Generator
) -> None:
    """Counters of pieces, cut anywhere, add up to those of the whole."""
    rows = random_rows(rng, 60, 9)
    cuts = sorted({0, 60, *rng.integers(0, 60, 5).tolist()})
    pieces = [rows[start:end] for start, end in zip(cuts, cuts[1:])]
    assert sum(counter(metric, piece) for piece in pieces) == counter(metric, rows)


def counter(metric: Metric, rows: list[Plain]) -> int:
    values = metric.values(as_lists(rows))
    steps = np.floor(metric.unit * values[~np.isnan(values)] + 0.5001)
    return int(steps.astype(np.int64).sum())


@EVERY
def test_perfect_order_scores_the_maximum(
    family: str, metric: Metric, rng: np.random.Generator
) -> None:
    rows = random_rows(rng, 60, 9)
    best = goodness(metric, [by_gain(row, best_first=True) for row in rows])
    worst = goodness(metric, [by_gain(row, best_first=False) for row in rows])
    shuffled = [reordered(row, rng.permutation(len(row.grades)).tolist()) for row in rows]
    assert (best >= goodness(metric, shuffled) - TOLERANCE).all()
    assert (best >= worst - TOLERANCE).all()


@EVERY
def test_better_item_swapped_upwards_never_harms(
    family: str, metric: Metric, rng: np.random.Generator
) -> None:
    rows = [row for row in random_rows(rng, 150, 9) if len(row.grades) > 1]
    swapped = []
    for row in rows:
        upper, lower = sorted(rng.choice(len(row.grades), 2, replace=False).tolist())
        order = list(range(len(row.grades)))
        if (row.grades[upper] or 0) < (row.grades[lower] or 0):
            order[upper], order[lower] = lower, upper
        swapped.append(reordered(row, order))
    assert (goodness(metric, swapped) >= goodness(metric, rows) - TOLERANCE).all()


@pytest.mark.parametrize("name", ["nDCG@10", "nDCG", "nDCG(gain=linear)@3", "nCG@5"])
def test_perfect_order_of_its_own_list_is_exactly_one(name: str, rng: np.random.Generator) -> None:
    rows = [by_gain(row, best_first=True) for row in random_rows(rng, 200, 12)]
    values = parse(name).values(as_lists(rows))
    assert set(values[~np.isnan(values)].tolist()) == {1.0}


@pytest.mark.parametrize("name", ["nDCG@10", "nDCG(gain=linear)@3"])
def test_ideal_is_the_same_by_counting_and_by_sorting(name: str, rng: np.random.Generator) -> None:
    """A fractional grade makes its block use the sort; the other lists must not change."""
    metric = parse(name, max_grade=MAX_GRADE)
    lists = as_lists(random_rows(rng, 100, 9))
    fraction = Lists.of([[0.5] + [0] * (lists.depth - 1)])
    both = Lists(
        gains=np.concatenate([lists.gains, fraction.gains]),
        lengths=np.concatenate([lists.lengths, fraction.lengths]),
        judged=np.concatenate([lists.judged, fraction.judged]),
    )
    assert same(metric.values(both)[:-1], metric.values(lists))


@EVERY
def test_no_lists_give_no_values(family: str, metric: Metric) -> None:
    assert metric.values(as_lists([])).shape == (0,)


@EVERY
def test_name_parses_as_the_same_metric(family: str, metric: Metric) -> None:
    assert parse(metric.name, max_grade=MAX_GRADE) == metric
    assert hash(parse(metric.name, max_grade=MAX_GRADE)) == hash(metric)


@pytest.mark.parametrize("name", ["P@280", "RR", "R@280", "nDCG", "nDCG(gain=linear)@270", "Bpref"])
def test_lists_longer_than_255_ranks_are_counted(name: str, rng: np.random.Generator) -> None:
    """Ranks beyond 255 do not fit the one-byte integers in which short lists are counted."""
    late: list[float | None] = [*[0.0] * 299, 1.0]
    rows = random_rows(rng, 6, 400)
    rows.append(replace(rows[0], grades=late, pool=[1.0, 0.0], known=[False] * 300))
    metric = parse(name, max_grade=MAX_GRADE)
    expected = [value(name.partition("@")[0].partition("(")[0], row, metric) for row in rows]
    np.testing.assert_allclose(metric.values(as_lists(rows)), expected, rtol=TOLERANCE)
