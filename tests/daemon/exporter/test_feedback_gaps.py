"""Of a time without any feedback no score says anything: nothing falls by it, while it lasts, when
it is over, or later; what falls beside it is told as ever."""

from collections.abc import Iterator

import numpy as np
import pytest

from relevanced.daemon.changes import FeedbackGap, gaps_in
from relevanced.daemon.exporter import Publisher, Reading, Told, packed, restored
from relevanced.daemon.http import Changes, changes
from relevanced.daemon.panes import HOUR_MS
from tests.daemon.exporter.two_countries import MINUTE_MS, NOW_MS, PLAN, Site

STOPPED_MS = NOW_MS - 6 * HOUR_MS
"""06:00 UTC."""
SETTLE_MS = PLAN.timing.settle_ms


class Unheard(Site):
    """Searches of two days; none of the feedback of some minutes comes. US gets worse at
    `break_ms`."""

    def __init__(self, minutes: int, break_ms: int = NOW_MS * 2, days: float = 2) -> None:
        begin_ms = STOPPED_MS - round(days * 24 * HOUR_MS)
        super().__init__(begin_ms, break_ms, 0.5, per_minute=200, fall=("US",))
        for start in range(STOPPED_MS, STOPPED_MS + minutes * MINUTE_MS, MINUTE_MS):
            rows = self.parts[start]
            rows[:, [1, 3]] = 0
            for metric in range(len(PLAN.metrics)):
                rows[:, PLAN.metric_column(metric) + 1 : PLAN.metric_column(metric) + 3] = 0
            abandoned = PLAN.metric_column(2)
            rows[:, [abandoned + 1, abandoned + 2]] = rows[:, [abandoned]] * PLAN.metrics[2].unit

    def read(self, publisher: Publisher, minute: int) -> Reading:
        """What is published so long after the feedback stopped."""
        now_ms = STOPPED_MS + minute * MINUTE_MS + SETTLE_MS
        read = publisher.publish([self.lane(now_ms)], now_ms, with_series=False).reading
        assert read is not None
        return read


def said(site: Unheard, publisher: Publisher, minutes: range) -> Iterator[tuple[int, Changes]]:
    for minute in minutes:
        yield minute, changes(site.read(publisher, minute), "5m", "settled", {})


@pytest.mark.parametrize("lost", [3, 75])
def test_nothing_falls_by_it_while_it_lasts_and_after_its_end(lost: int) -> None:
    site, publisher = Unheard(lost), Publisher(PLAN)
    for minute, answer in said(site, publisher, range(-20, 0, 5)):
        assert answer.headline.tone == "good" and "No feedback" not in answer.headline.detail
    for minute, answer in said(site, publisher, range(0, lost + 120, 4)):
        assert (answer.open, answer.closed) == ((), ()), minute
        stopped = answer.headline.text.startswith("No feedback since 0")
        assert answer.headline.tone == ("worse" if stopped else "good")
        assert not stopped or minute < lost
        if minute > 2:
            assert all(row.verdict not in ("worse", "diluted") for row in answer.changes), minute
        if minute >= lost + 3:
            hours, rest = divmod(lost, 60)
            told = f"No feedback came from 06:00 to {6 + hours:02}:{rest:02}: scores say nothing"
            assert told in answer.headline.detail
            parts = answer.headline.parts
            assert parts is not None and parts.no_feedback is not None
        elif not stopped and 2 < minute < lost:
            assert answer.headline.text.startswith("Up to 06:00"), "nothing is known of later"


def test_a_day_later_it_is_no_news_and_its_hours_are_no_measure() -> None:
    site, publisher = Unheard(40), Publisher(PLAN)
    site.read(publisher, 60)
    answer = changes(site.read(publisher, 300), "5m", "settled", {})
    assert "No feedback came" in answer.headline.detail
    told = publisher.told
    assert [gap.begin_ms for gap in told.gaps] == [STOPPED_MS]
    hours = site.read(publisher, 301).clicks.outages
    assert STOPPED_MS in hours, "no hour of it says what is usual"


def test_what_falls_after_it_is_told_with_its_own_onset() -> None:
    broke = STOPPED_MS + 60 * MINUTE_MS
    site, publisher = Unheard(30, broke), Publisher(PLAN)
    for minute, answer in said(site, publisher, range(10, 60, 5)):
        assert answer.open == (), minute
    *_, (_, answer) = said(site, publisher, range(60, 100, 5))
    (change,) = answer.open
    assert change.segments == ("US",) and change.onset.at is not None
    assert change.onset.at.startswith(("2026-11-20T06:59", "2026-11-20T07:0"))


def test_another_exporter_takes_it_over() -> None:
    site, first, second = Unheard(30), Publisher(PLAN), Publisher(PLAN)
    site.read(first, 40)
    second.told = restored(packed(first.told), Told())
    assert second.told == first.told != Told()
    # The panes of that time are gone by then: only what was stored knows of it.
    for minute, answer in said(site, second, range(200, 260, 10)):
        assert (answer.open, answer.closed) == ((), ()), minute
        assert "No feedback came from 06:00 to 06:30" in answer.headline.detail


def test_searches_without_results_are_no_missing_feedback() -> None:
    bins = np.arange(20) * MINUTE_MS
    shown, feedback = np.full(20, 100.0), np.full(20, 40.0)
    feedback[8:12] = 0
    (gap,) = gaps_in(bins, bins + MINUTE_MS, shown, feedback)
    assert gap == FeedbackGap(8 * MINUTE_MS, 12 * MINUTE_MS)
    listed = shown.copy()
    listed[8:12] = 0
    assert [*gaps_in(bins, bins + MINUTE_MS, listed, feedback)] == []


@pytest.mark.parametrize("per_bin", [0.01, 0.1, 1.0, 3.0])
def test_rare_feedback_is_not_missing(per_bin: float) -> None:
    rng = np.random.default_rng(20261127)
    bins = np.arange(2_000) * MINUTE_MS
    for _ in range(200):
        feedback = rng.poisson(per_bin, len(bins)).astype(float)
        assert [*gaps_in(bins, bins + MINUTE_MS, np.full(len(bins), 50.0), feedback)] == []
