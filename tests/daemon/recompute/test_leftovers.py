"""What a replay calls open after a repair is what the page and the alerts call open."""

from dataclasses import replace

import numpy as np

from relevanced.daemon.changes import ChangeSettings
from relevanced.daemon.recompute.buckets import BucketsOverTime
from relevanced.daemon.recompute.falls import fallen
from relevanced.daemon.views import Selection
from relevanced.metrics import Floats, parse
from tests.lane_views import NOW_MS, PLAN

BUCKET_MS = 600_000
PLAN_OF_BUCKETS = replace(PLAN, metrics=(parse("RR@10"),), hour_ms=BUCKET_MS)
SEGMENTS = (("all", "all"), ("country", "DE"), ("country", "US"))
PER_BUCKET = {"DE": 300, "US": 900}
BREAKS, REPAIRED = 60, 72
"""Buckets."""


def rows(score: float, impressions: int) -> Floats:
    """A row of searches that each find it at rank 1 or not at all."""
    metric, found = PLAN_OF_BUCKETS.metrics[0], round(score * impressions)
    row = np.zeros(PLAN_OF_BUCKETS.row_width)
    row[0] = impressions
    at = PLAN_OF_BUCKETS.metric_column(0)
    row[at : at + 3] = impressions, found * metric.unit, found * metric.unit
    return row


def site(buckets: int, seed: int) -> BucketsOverTime:
    """Two countries, of which DE loses half until it is repaired."""
    rng, made = np.random.default_rng(seed), []
    for bucket in range(buckets):
        level = {"DE": 0.3 if BREAKS <= bucket < REPAIRED else 0.6, "US": 0.6}
        found = {
            country: rows(rng.binomial(count, level[country]) / count, count)
            for country, count in PER_BUCKET.items()
        }
        made.append([found["DE"] + found["US"], found["DE"], found["US"]])
    starts = NOW_MS + np.arange(buckets, dtype=np.int64) * BUCKET_MS
    end_ms = int(starts[-1]) + BUCKET_MS
    selection = Selection(SEGMENTS, (), ())
    return BucketsOverTime(PLAN_OF_BUCKETS, selection, starts, np.array(made), end_ms)


def test_what_fell_with_a_country_is_not_open_once_that_has_recovered() -> None:
    """The whole proves its own recovery only some buckets later. For the first ten minutes behind a
    recovery nothing is known of what fell with it."""
    seen = []
    for behind in (-2, 0, *range(2, 8)):
        open_now, over, *_ = fallen(site(REPAIRED + behind, seed=1), ChangeSettings())
        assert not (open_now and over), f"{behind} buckets after the repair"
        seen.append((len(open_now), len(over)))
    assert seen[0] == (1, 0) and seen[-1] == (0, 1), "it was open, and it is over"
