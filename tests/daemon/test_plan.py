"""The columns of a row, and the numbers that follow from a configuration."""

from relevanced.daemon.plan import COUNT_COLUMNS
from tests.builders import PLAN, plan_with
from tests.replica import columns_of


def test_the_whole_is_grouping_zero() -> None:
    plan = plan_with(groupings=(("country",), ("country", "experiment:ranker")))
    assert plan.grouping_names == ("all", "country", "country,experiment:ranker")
    assert plan_with(groupings=()).grouping_names == ("all",)


def test_each_metric_has_three_columns_after_the_counts() -> None:
    names = columns_of(PLAN)
    assert len(names) == PLAN.row_width == len(COUNT_COLUMNS) + 3 * len(PLAN.metrics)
    for number, metric in enumerate(PLAN.metrics):
        assert names[PLAN.metric_column(number)] == f"{metric.name}:scored"


def test_ten_times_max_segments_values_are_admitted() -> None:
    assert plan_with(max_segments=7).admitted_values == 70
