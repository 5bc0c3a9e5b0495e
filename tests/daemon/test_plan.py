"""The columns of a row, and the numbers that follow from a configuration."""

from relevanced.daemon.plan import COUNT_COLUMNS
from relevanced.daemon.queries import Derivation
from tests.builders import PLAN, plan_with
from tests.replica import columns_of


def test_the_whole_is_grouping_zero() -> None:
    plan = plan_with(groupings=(("country",), ("country", "experiment:ranker")))
    assert plan.grouping_names == ("all", "country", "country,experiment:ranker")
    assert plan_with(groupings=()).grouping_names == ("all",)


def test_grouping_of_derived_attributes_is_known_by_their_rule() -> None:
    groupings, length = (("country",), ("country", "length")), Derivation("length", words=(1, 2))
    plan = plan_with(groupings=groupings, derivations=(length,))
    assert plan.grouping_ids == ("all", "country", f"country,{length.meaning}")
    assert plan.grouping_names == plan_with(groupings=groupings).grouping_ids
    assert plan.grouping_id("country,length") == plan.grouping_ids[2]
    assert plan.grouping_id(None) is None


def test_each_metric_has_three_columns_after_the_counts() -> None:
    names = columns_of(PLAN)
    assert len(names) == PLAN.row_width == len(COUNT_COLUMNS) + 3 * len(PLAN.metrics)
    for number, metric in enumerate(PLAN.metrics):
        assert names[PLAN.metric_column(number)] == f"{metric.name}:scored"


def test_ten_times_max_segments_values_are_admitted() -> None:
    assert plan_with(max_segments=7).admitted_values == 70
