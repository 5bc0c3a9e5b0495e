"""What a backfill says, also of what it leaves out."""

from dataclasses import replace

import numpy as np

from relevanced.daemon.panes import HOUR_MS
from relevanced.daemon.recompute.backfill_report import NOT_JUDGED, Filled, lines
from tests.judged_lanes import NOON, PLAN


def test_judged_scores_are_said_not_to_be_filled() -> None:
    cells = np.ones((len(PLAN.grouping_names), 1 + len(PLAN.metrics)), np.bool_)
    hours = range(NOON, NOON + HOUR_MS, HOUR_MS)
    filled = Filled(PLAN, hours, "Kafka", hours, gained={NOON: cells})
    assert NOT_JUDGED in list(lines(filled))
    assert NOT_JUDGED not in list(lines(replace(filled, plan=replace(PLAN, judged=None))))


def test_hours_in_between_that_are_there_are_not_counted() -> None:
    cells = np.ones((len(PLAN.grouping_names), 1 + len(PLAN.metrics)), np.bool_)
    hours = range(NOON, NOON + 5 * HOUR_MS, HOUR_MS)
    gained = {NOON: cells, NOON + 4 * HOUR_MS: cells}
    missing, filled, *_ = lines(Filled(PLAN, hours, "Kafka", hours, (), gained, lacking=3))
    assert missing.endswith("(3 of 5 hours).") and filled.endswith("(2 of 5 hours).")
