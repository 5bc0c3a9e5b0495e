"""Broken queries lead the list that is made of the lanes' own tables, which are cut."""

from typing import Final

import numpy as np
import pytest

from tests.daemon.queries.query_traffic import KEPT, Traffic, simulate_hours
from tests.daemon.queries.traffic_tables import found_in_tables, named_by_tables

SEED: Final = 20_261_125


@pytest.mark.parametrize("lanes", [1, 8])
def test_broken_queries_lead_the_list_of_the_tables(lanes: int) -> None:
    rng = np.random.default_rng(SEED)
    traffic = Traffic(10_000, broken_searches=100)
    named = [named_by_tables(simulate_hours(traffic, rng), lanes, rng) for _ in range(4)]
    assert min(named) >= 9, named


def test_tables_lose_no_search(rng: np.random.Generator) -> None:
    """Listed and (other) ones are the whole, now and on each usual day."""
    hours = simulate_hours(Traffic(10_000, days=2), rng)
    found = found_in_tables(hours, 2, rng)
    whole = found.searches
    assert len(found.merged.keys) >= KEPT
    assert whole.scored.sum() == hours.scored[0].sum()
    assert whole.total.sum() == hours.totals[0].sum()
    assert whole.daily_scored.sum(axis=1).tolist() == [each.sum() for each in hours.scored[1:]]
    assert whole.daily_total.sum(axis=1) == pytest.approx([each.sum() for each in hours.totals[1:]])
