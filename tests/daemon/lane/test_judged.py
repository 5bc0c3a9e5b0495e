"""Judged rows: the same as those of an oracle, for any log, cut and order of pages."""

import json
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np
import pytest

from relevanced.daemon.judgements import (
    HOUR_MS,
    IndexEntry,
    JudgedPlan,
    Judgements,
    Timeline,
    file_name,
    judged_plan,
)
from relevanced.daemon.lane import (
    GradedList,
    Grader,
    QueryKeys,
    ShownLists,
    judged,
    row_width,
)
from relevanced.daemon.panes import pane_start, window
from relevanced.daemon.timing import Timing
from tests import oracle_judged

PLAN: Final = judged_plan(["nDCG@3", "P@2", "Judged@3"], relevant_from=2, max_grade=3)
TIMING: Final = Timing((window("5m", 300),), 1_800_000, 60_000)
ENTRIES: Final = tuple(
    IndexEntry(hour * HOUR_MS, file_name(hour * HOUR_MS, "a.csv"), f"{hour:064x}")
    for hour in (1, 2, 3)
)
TIMELINE: Final = Timeline(ENTRIES)
ITEMS: Final = [f"d{number}" for number in range(8)]
NOTHING: Final = (0,) * row_width(PLAN)


def random_judgements(rng: np.random.Generator) -> dict[IndexEntry, Judgements]:
    """Another file for each entry, that judges some of six queries."""
    return {
        entry: Judgements(
            {
                f"q{query}": {
                    item: float(rng.integers(0, 4))
                    for item in rng.choice(ITEMS, int(rng.integers(1, 7)), replace=False).tolist()
                }
                for query in rng.choice(6, 4, replace=False).tolist()
            }
        )
        for entry in ENTRIES
    }


@dataclass(frozen=True)
class ShownList:
    """One list, as a record gives it or changes it."""

    query: str
    time_ms: int
    watermark_ms: int
    items: Sequence[str]
    before: Sequence[str] | None = None


def together(shown: Sequence[ShownList]) -> ShownLists:
    keys = QueryKeys()
    return ShownLists(
        queries=keys.numbers_of([each.query for each in shown]),
        keys=keys,
        times_ms=np.array([each.time_ms for each in shown], np.int64),
        watermarks_ms=np.array([each.watermark_ms for each in shown], np.int64),
        texts_at=lambda indices: [json.dumps(shown[n].items).encode() for n in indices],
        before={
            n: json.dumps(each.before).encode()
            for n, each in enumerate(shown)
            if each.before is not None
        },
    )


# The oracle: one impression at a time, by the metrics' own evaluation of dictionaries.


@dataclass
class Impression:
    query: str
    time_ms: int
    pages: list[tuple[list[str], int]] = field(default_factory=list)
    """(items, watermark that the record met), the impression's own list first."""


def expected_row(
    impression: Impression, judgements: dict[IndexEntry, Judgements], plan: JudgedPlan
) -> tuple[int, ...]:
    """What the impression has added once everything is read."""
    started = [entry for entry in ENTRIES if entry.start_ms <= impression.time_ms]
    grades = judgements[started[-1]].by_query.get(impression.query) if started else None
    end_ms = pane_start(impression.time_ms, TIMING.base_ms) + TIMING.base_ms
    in_time = [items for items, met in impression.pages if met < end_ms + TIMING.lateness_ms]
    if grades is None or not in_time:
        return NOTHING
    shown = [item for items in in_time for item in items]
    return tuple(oracle_judged.row_of(shown, grades, [metric.name for metric in plan.metrics]))


def random_log(rng: np.random.Generator) -> tuple[list[Impression], list[ShownList]]:
    """Impressions whose pages come soon or late, on both sides of a start and of the lateness."""
    records = []
    for number in range(int(rng.integers(1, 40))):
        near = int(rng.choice([1, 2, 3])) * HOUR_MS + int(rng.integers(-300_000, 300_000))
        items = rng.permutation(ITEMS).tolist()
        cuts = np.sort(rng.integers(0, 8, int(rng.integers(1, 4)))).tolist()
        arrival = near + int(rng.choice([0, 10_000, 120_000]))
        for start, end in zip([0, *cuts], cuts):
            records.append((arrival, number, near, items[start:end]))
            arrival += int(rng.choice([1_000, 30_000, 60_000]))
    impressions: dict[int, Impression] = {}
    shown: list[ShownList] = []
    watermark = -1
    for arrival, number, time_ms, items in sorted(records):
        first = number not in impressions
        impression = impressions.setdefault(number, Impression(f"q{number % 6}", time_ms))
        before = [item for page, _ in impression.pages for item in page]
        impression.pages.append((items, watermark))
        now = [*before, *items]
        shown.append(
            ShownList(impression.query, time_ms, watermark, now, None if first else before)
        )
        watermark = max(watermark, time_ms, arrival - 60_000)
    return list(impressions.values()), shown


def graded_in_batches(
    shown: Sequence[ShownList], judgements: dict[IndexEntry, Judgements], rng: np.random.Generator
) -> list[GradedList]:
    """The log in random batches, by two graders in turns."""
    graders = [Grader(PLAN, TIMING), Grader(PLAN, TIMING)]
    found, at = [], 0
    while at < len(shown):
        end = at + int(rng.integers(1, 15))
        grader = graders[int(rng.integers(2))]
        found.append(grader.grade(together(shown[at:end]), TIMELINE, judgements))
        at = end
    return found


def test_rows_equal_the_oracle_for_any_cut(rng: np.random.Generator) -> None:
    for _ in range(150):
        judgements = random_judgements(rng)
        impressions, shown = random_log(rng)
        found = graded_in_batches(shown, judgements, rng)
        rows = np.concatenate([graded.rows for graded in found])
        by_pane: dict[int, list[int]] = defaultdict(lambda: [0] * row_width(PLAN))
        for impression in impressions:
            pane = pane_start(impression.time_ms, TIMING.base_ms)
            row = expected_row(impression, judgements, PLAN)
            by_pane[pane] = [a + b for a, b in zip(by_pane[pane], row, strict=True)]
        for pane, expected in by_pane.items():
            of_pane = [pane_start(each.time_ms, TIMING.base_ms) == pane for each in shown]
            assert rows[of_pane].sum(axis=0).tolist() == expected


def test_rows_of_a_pane_are_final_half_an_hour_before_clicks(rng: np.random.Generator) -> None:
    for _ in range(100):
        judgements = random_judgements(rng)
        _, shown = random_log(rng)
        found = Grader(PLAN, TIMING).grade(together(shown), TIMELINE, judgements)
        for each, row in zip(shown, found.rows, strict=True):
            if row.any():
                pane = pane_start(each.time_ms, TIMING.base_ms)
                assert pane >= TIMING.final_before(each.watermark_ms)


def grade_one(
    items: Sequence[str],
    *,
    time_ms: int = HOUR_MS,
    watermark_ms: int = -1,
    query: str = "q",
) -> GradedList:
    judgements = {
        entry: Judgements({"q": {"a": 3.0, "b": float(n)}}) for n, entry in enumerate(ENTRIES)
    }
    shown = [ShownList(query, time_ms, watermark_ms, items)]
    return Grader(PLAN, TIMING).grade(together(shown), TIMELINE, judgements)


def test_list_is_graded_by_the_file_of_its_own_time() -> None:
    found = grade_one(["b", "x"], time_ms=3 * HOUR_MS - 1)
    ndcg = round(1e6 * (2**1 - 1) / (7 + 1 / np.log2(3)))
    assert found.rows[0].tolist()[:5] == [1, 2, 1, 1, pytest.approx(ndcg, abs=1)]
    later = grade_one(["b", "x"], time_ms=3 * HOUR_MS)
    assert later.rows[0, 4] > found.rows[0, 4], "b has another grade from then on"


def test_what_is_not_judged_adds_nothing() -> None:
    for found in (grade_one(["a"], time_ms=HOUR_MS - 1), grade_one(["a"], query="other")):
        assert not found.rows.any() and not found.is_judged.any() and not found.is_late.any()


def test_late_record_counts_as_late_only() -> None:
    last_ms = HOUR_MS + TIMING.base_ms + TIMING.lateness_ms
    assert grade_one(["a"], watermark_ms=last_ms - 1).is_judged.all()
    late = grade_one(["a"], watermark_ms=last_ms)
    assert not late.rows.any() and late.is_late.all()
    assert grade_one(["a"], watermark_ms=last_ms, query="other").is_late.tolist() == [False]


def test_empty_list_of_a_judged_query_counts_with_0() -> None:
    assert grade_one([]).rows[0].tolist()[:6] == [1, 0, 0, 1, 0, 0]


def test_columns_begin_at_their_first_hour(rng: np.random.Generator) -> None:
    judgements = random_judgements(rng)
    _, shown = random_log(rng)
    found = Grader(PLAN, TIMING).grade(together(shown), TIMELINE, judgements, since_ms=2 * HOUR_MS)
    assert not any(row.any() for each, row in zip(shown, found.rows) if each.time_ms < 2 * HOUR_MS)


def test_what_is_remembered_is_bounded_and_changes_nothing(
    rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch
) -> None:
    judgements = random_judgements(rng)
    _, shown = random_log(rng)
    expected = Grader(PLAN, TIMING).grade(together(shown), TIMELINE, judgements).rows
    monkeypatch.setattr(judged, "MOST_REMEMBERED", 3)
    grader = Grader(PLAN, TIMING)
    for _ in range(3):
        found = [grader.grade(together([each]), TIMELINE, judgements).rows for each in shown]
        assert np.concatenate(found).tolist() == expected.tolist()
        assert all(len(remembered) <= 3 for remembered in grader._remembered.values())
    assert grader.grade(together(shown), TIMELINE, judgements).rows.tolist() == expected.tolist()
    grader.grade(together(shown[:1]), Timeline(), judgements)
    assert not grader._remembered, "files that have left the timeline are forgotten"


def test_nothing_is_graded_of_nothing() -> None:
    found = Grader(PLAN, TIMING).grade(together([]), TIMELINE, {})
    assert found.rows.shape == (0, row_width(PLAN)) and not found.is_late.any()
