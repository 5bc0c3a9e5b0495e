"""Names of metrics: canonical spellings, invalid names and their messages, needs."""

from typing import Any

import numpy as np
import pytest

from relevanced.metrics import CATALOG, Lists, parse
from tests.metrics.batches import every_metric


@pytest.mark.parametrize(
    ("given", "canonical"),
    [
        ("nDCG@10", "nDCG@10"),
        ("nDCG( gain = linear )@10", "nDCG(gain=linear)@10"),
        ("nDCG(gain=exponential,ideal=list)@10", "nDCG@10"),
        ("nDCG(ideal=pool,gain=linear)", "nDCG(gain=linear,ideal=pool)"),
        ("nDCG(dcg='exp-log2')@5", "nDCG@5"),
        ("nDCG(dcg='log2')@5", "nDCG(gain=linear)@5"),
        ("P(rel=2.0)@05", "P(rel=2)@5"),
        ("P(rel=1)@5", "P@5"),
        ("IPrec@0.10", "IPrec@0.1"),
        ("RBP(p=0.8)@10", "RBP@10"),
        (" IPS-DCG( gain = linear )@5", "IPS-DCG(gain=linear)@5"),
        ("SetE(stress=recall)", "SetE(stress=recall)"),
    ],
)
def test_name_is_brought_to_its_canonical_spelling(given: str, canonical: str) -> None:
    assert parse(given).name == canonical
    assert parse(given) == parse(canonical)


INVALID = {
    "MRR@10": "MRR is the mean of RR@10: name RR@10",
    "MAP": "MAP is the mean of AP: name AP",
    "GMAP": "GMAP is the geometric mean of AP: name AP",
    "ndcg@10": "did you mean nDCG@10?",
    "Sucess@5": "did you mean Success@5?",
    "ndcg_cut_10": "write nDCG(gain=linear,ideal=pool)@10",
    "P@0": "k=0: must be a whole number >= 1",
    "P@1.5": "k=1.5: must be a whole number >= 1",
    "P(rel=0)@5": "rel=0: must be a number > 0",
    "P(rel=nan)@5": "rel=nan: must be a number > 0",
    "P(rel=1,rel=2)@5": "rel is given twice",
    "P(rel)@5": "must be parameter=value",
    "P(gain=linear)@5": "gain is not a parameter of P, which takes rel, variant",
    "nDCG(gain=cubic)@5": "gain=cubic: must be exponential or linear",
    "nDCG(jk=1)@5": "jk=1: must be a number > 1",
    "RBP(p=1)@5": "p=1: must be a number between 0 and 1",
    "IPrec@1.5": "must have a recall level from 0 to 1",
    "IPrec": "must have a recall level from 0 to 1",
    "IPS-nDCG@5": "did you mean IPS-DCG@5?",
    "Rprec@5": "takes the whole list, so no @5",
    "SetE": "stress must be given: it must be precision or recall",
    "": "must look like nDCG@10",
    "recall@5": "recall is called R here: write R@5",
    "Recall@5": "write R@5",
    "precision@10": "write P@10",
    "hits@10": "write Success@10",
    "hit@5": "write Success@5",
    "Hit_Rate@5": "write Success@5",
    "mrr": "name RR",
    "map@100": "map is the mean of AP@100: name AP@100",
    "f1@5": "write F@5",
    "r-precision": "write Rprec",
    "ctr": "is 1 - Abandonment: name Abandonment",
    "Zero_Result_Rate": "write ZeroResults",
    "time_to_first_click": "write FirstFeedbackSeconds",
    "clicks_per_search@3": "write Clicks@3",
    "quality": "`relevanced metrics` lists all of them",
    "x@5": "`relevanced metrics` lists all of them",
    "P@5,P@10": "is 2 names: give each singly: P@5 P@10",
    "P@5 RR": "is 2 names: give each singly: P@5 RR",
    "P@5,nDCG(gain=linear,ideal=pool)@10": "singly: P@5 nDCG(gain=linear,ideal=pool)@10",
    "P@5 and RR?": "must look like nDCG@10",
}


@pytest.mark.parametrize("name", INVALID)
def test_error_names_the_invalid_name_and_the_rule(name: str) -> None:
    with pytest.raises(ValueError) as error:
        parse(name)
    assert INVALID[name] in str(error.value)
    assert repr(name) in str(error.value)


def test_configuration_applies_to_what_the_name_does_not_state() -> None:
    lists = Lists.of([[1, 2]])
    assert parse("P@2", relevant_from=2).values(lists).tolist() == [0.5]
    assert parse("P(rel=1)@2", relevant_from=2).values(lists).tolist() == [1.0]
    assert parse("P(rel=1)@2", relevant_from=2).name == "P(rel=1)@2"
    assert parse("ERR@2", max_grade=3).name == "ERR@2"
    assert parse("ERR@2", max_grade=3) != parse("ERR@2", max_grade=4)


def test_ideal_of_the_pool_is_always_stated_in_the_name() -> None:
    assert parse("nDCG@5", ideal="pool").name == "nDCG(ideal=pool)@5"
    assert parse("nDCG(ideal=list)@5", ideal="pool").name == "nDCG(ideal=list)@5"


@pytest.mark.parametrize("name", [metric.name for _, metric in every_metric()])
@pytest.mark.parametrize("defaults", [{}, {"relevant_from": 2, "max_grade": 4, "ideal": "pool"}])
def test_full_name_means_the_same_under_other_defaults(name: str, defaults: Any) -> None:
    metric = parse(name, **defaults)
    again = parse(metric.full_name, relevant_from=3, max_grade=9)
    assert (again.k, again.settings) == (metric.k, metric.settings)
    assert again.full_name == metric.full_name


def test_full_name_states_what_the_name_leaves_open() -> None:
    assert parse("P@5", relevant_from=2).full_name == "P(rel=2,variant=standard)@5"
    assert parse("nDCG@5", ideal="pool").full_name == "nDCG(gain=exponential,ideal=pool)@5"
    assert parse("ERR", max_grade=4).full_name == "ERR(max_grade=4,discount=reciprocal)"
    assert parse("Rprec").full_name == "Rprec(rel=1)"
    assert parse("IPrec@0.10").full_name == "IPrec(rel=1)@0.1"


@pytest.mark.parametrize(
    ("name", "need"),
    [
        ("nDCG@10", "impression"),
        ("AP@10", "impression"),
        ("R@10", "pool"),
        ("nDCG(ideal=pool)@10", "pool"),
        ("Fallout", "collection"),
        ("Utility", "impression"),
        ("Utility(c=-1)", "pool"),
        ("Utility(c=-1,d=1)", "collection"),
        ("Novelty", "known"),
        ("alpha_nDCG@10", "subtopics"),
        ("FirstFeedbackSeconds", "timing"),
        ("IPS-DCG@10", "propensities"),
    ],
)
def test_needs_are_those_of_family_and_settings(name: str, need: str) -> None:
    assert parse(name).needs == need


def test_metric_is_refused_where_its_needs_are_not_met() -> None:
    metric = parse("R@10")
    assert "judged pool" in (metric.refusal() or "")
    assert metric.refusal(["pool"]) is None
    with pytest.raises(ValueError, match="R@10 needs a judged pool"):
        metric.values(Lists.of([[1, 0]]))


def test_grade_above_the_scale_is_refused_by_err() -> None:
    with pytest.raises(ValueError, match="grade 3 is above max_grade=2"):
        parse("ERR@5", max_grade=2).values(Lists.of([[3]]))


def test_p_without_a_cutoff_divides_by_what_is_shown() -> None:
    np.testing.assert_array_equal(parse("P").values(Lists.of([[1, 0, 0, 0], [1]])), [0.25, 1.0])


def test_every_entry_has_source_undefined_case_and_unit() -> None:
    for entry in CATALOG.values():
        assert entry.source and entry.undefined and entry.unit > 0
        assert entry.range[0] < entry.range[1]
        assert entry.range == (0.0, 1.0) or entry.unit < 1_000_000
