"""Each column of a grouping in an hour comes from one source: the lanes, or the first filling that
has it, or the last one that replaces earlier ones."""

import random
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Final

import numpy as np
import pytest
from msgspec import structs

from relevanced.daemon.lane import PAGE_ROWS, Instant, Since
from relevanced.daemon.plan import COUNT_COLUMNS, METRIC_COLUMNS, Plan
from relevanced.daemon.queries import Derivation
from relevanced.daemon.storage import Filling, InForce, Part, StoredPast, first_layouts, pack_page
from relevanced.daemon.views import HourHistory, LaneView, Names, _filled_cells, covered
from relevanced.metrics import parse
from tests import lane_views
from tests.seeds import seeds

HOUR: Final = 3_600_000
FIRST: Final = lane_views.NOW_MS // HOUR * HOUR - 12 * HOUR
HOURS: Final = range(FIRST, FIRST + 12 * HOUR, HOUR)
PLAN: Final = replace(lane_views.PLAN, history_hours=48)
OTHERS: Final = (parse("AP@3"), parse("P@3"))
SEGMENTS: Final = (("all", "all"), ("country", "US"), ("country,device", "US,ios"))
CELLS: Final = np.array([0] * len(COUNT_COLUMNS) + [1] * 3 + [2] * 3 + [3] * 3)


def page(plan: Plan, segments: Sequence[tuple[str, str]], value: int) -> bytes:
    rows = np.zeros((PAGE_ROWS, plan.row_width), np.int64)
    rows[: len(segments)] = value
    return pack_page(rows)


def instant(rng: random.Random) -> Instant:
    return rng.choice((None, None, rng.choice(HOURS) + rng.choice((0, 60_000))))


def lane(rng: random.Random, number: int) -> LaneView:
    """A lane in which every integer of every hour is 1."""
    order = [SEGMENTS[0], *rng.sample(SEGMENTS[1:], 2)]
    begins = rng.choice(HOURS[:8])
    had = Since(
        {id_: instant(rng) for id_ in PLAN.column_ids},
        {name: instant(rng) for name in PLAN.grouping_names},
        {window.length_ms: None for window in PLAN.timing.windows},
        rng.choice((None, rng.choice(HOURS))),
    )
    layouts = structs.replace(first_layouts(InForce(PLAN, 1)), since=had)
    hours = {s: {0: page(PLAN, order, 1)} for s in HOURS if s >= begins and rng.random() < 0.8}
    lost = frozenset(s for s in HOURS if s > begins and rng.random() < 0.1)
    return LaneView(
        number,
        "t",
        1,
        Names(order),
        {},
        {},
        {"events": {"impression": 1}},
        settled_before=HOURS.stop,
        hours=hours,
        lost_hours=lost,
        layouts=layouts,
    )


def filling(rng: random.Random, number: int) -> StoredPast:
    """One in two parts, in which every integer is a power of 1000."""
    metrics = tuple(rng.sample((*PLAN.metrics, *OTHERS), rng.randint(1, 4)))
    kept = tuple(rng.sample(PLAN.groupings, rng.randint(0, 2)))
    plan = replace(PLAN, metrics=metrics, groupings=kept)
    first, until = sorted(rng.sample(range(13), 2))
    layout = InForce(plan, number).stored()
    span = FIRST + first * HOUR, FIRST + until * HOUR
    without = tuple(rng.sample(range(*span, HOUR), rng.randint(0, 2) % (until - first)))
    replaces = rng.random() < 0.3
    groupings = plan.grouping_names
    made = Filling(f"f{number}", layout, groupings, *span, "files", 0, without, replaces)
    parts = []
    for _ in range(2):
        segments = tuple(s for s in SEGMENTS if s[0] in plan.grouping_names)
        data = {0: page(plan, segments, 1000**number)}
        parts.append(Part(segments, {s: data for s in range(*span, HOUR)}))
    lost = frozenset(s for s in range(*span, HOUR) if rng.random() < 0.1)
    return StoredPast(made, parts, lost)


def lanes_have(views: Sequence[LaneView], start: int, grouping: str, metric: str | None) -> bool:
    """By the definition: all of them, over the whole hour, of which none has lost rows; None: the
    counts."""
    if any(start in view.lost_hours for view in views):
        return False
    if start < min((min(view.hours) for view in views if view.hours), default=2**62):
        return False
    for view in views:
        assert view.layouts is not None
        had = view.layouts.since
        instants = [had.hours, had.groupings[grouping] if grouping != "all" else None]
        instants += [] if metric is None else [had.columns[metric]]
        if any(i is not None and i > start for i in instants):
            return False
    return True


def filling_has(past: StoredPast, start: int, grouping: str, metric: str | None) -> bool:
    made = past.filling
    within = made.first_ms <= start < made.until_ms and start not in {*past.lost, *made.without}
    known = metric is None or metric in made.layout.columns
    return within and known and grouping in made.groupings


def expected(
    views: Sequence[LaneView], past: Sequence[StoredPast], start: int, grouping: str, cell: int
) -> tuple[int, str]:
    """The value of a cell, and where it comes from."""
    metric = None if cell == 0 else PLAN.column_ids[cell - 1]
    if lanes_have(views, start, grouping, metric):
        return sum(start in view.hours for view in views), "lanes"
    latest = [each for each in reversed(past) if each.filling.replaces]
    for each in (*latest, *(each for each in past if each not in latest)):
        if filling_has(each, start, grouping, metric):
            power = int(each.filling.id[1:])
            return 2 * 1000**power, each.filling.id
    return 0, ""


def cells() -> Iterator[tuple[int, int, str, int]]:
    for start in HOURS:
        for line, grouping in enumerate(PLAN.grouping_names):
            for cell in range(1 + len(PLAN.metrics)):
                yield start, line, grouping, cell


def test_hours_filled_under_another_rule_do_not_say_what_a_grouping_was() -> None:
    rules = [(), (Derivation("country", words=(1,)),), (Derivation("country", words=(2,)),)]
    plans = [replace(PLAN, derivations=rule) for rule in rules]
    line = PLAN.grouping_names.index("country")
    for filled in plans:
        layout = InForce(filled, 1).stored()
        span = FIRST, FIRST + HOUR
        made = Filling("f1", layout, filled.grouping_ids, *span, "files", 0)
        for plan in plans:
            cells_of = _filled_cells(StoredPast(made, (), frozenset()), plan, FIRST)
            assert cells_of[0].all() and cells_of[line].all() == (filled is plan)


@pytest.mark.parametrize("seed", seeds(40))
def test_every_cell_of_an_hour_comes_from_one_source(seed: int) -> None:
    rng = random.Random(seed)
    views = covered([lane(rng, n) for n in range(rng.randint(1, 3))], PLAN)
    past = [filling(rng, n) for n in range(1, rng.randint(1, 3) + 1)]
    history = HourHistory(PLAN)
    history.take(views, past)
    for start, line, grouping, cell in cells():
        value, source = expected(views, past, start, grouping, cell)
        row = history.rows_of(start, SEGMENTS)[line]
        where = f"{start - FIRST} {grouping} cell {cell}: {source or 'nothing'}"
        assert set(row[CELLS == cell].tolist()) == {value}, where
        known = history.sources.known(start)[line, cell]
        assert bool(known) == bool(source), where
        assert bool(history.sources.filled(start)[line, cell]) == source.startswith("f"), where


@pytest.mark.parametrize("seed", seeds(20, first=40))
def test_hours_that_no_source_has_whole_beside_filled_ones_are_in_no_sum(seed: int) -> None:
    rng = random.Random(seed)
    views = covered([lane(rng, n) for n in range(2)], PLAN)
    past = [filling(rng, 1)]
    history = HourHistory(PLAN)
    history.take(views, past)
    filled = [s for s in HOURS if expected(views, past, s, "all", 0)[1] == "f1"]
    born = history.sources.born_ms
    for start in HOURS:
        has_counts = bool(expected(views, past, start, "all", 0)[1])
        between = bool(filled) and filled[0] < start <= born and born < HOURS.stop
        is_lost = any(start in view.lost_hours for view in views) and not has_counts
        if between:
            assert (start in history.lost) == (start == born or not has_counts), start - FIRST
        elif start > born:
            assert (start in history.lost) == is_lost, start - FIRST


def test_what_more_lanes_come_to_have_is_seen_though_no_page_of_theirs_changes() -> None:
    """One lane goes to the layout later than the other, and has no rows of this hour."""
    rng = random.Random(1)
    name = PLAN.column_ids[0]
    first = first_layouts(InForce(PLAN, 1))

    def having(view: LaneView, since: int | None) -> LaneView:
        columns = {**first.since.columns, name: since} if since else dict(first.since.columns)
        if since is None:
            del columns[name]
        had = structs.replace(first.since, columns=columns)
        return replace(view, layouts=structs.replace(first, since=had), coverage=None)

    one = replace(
        lane(rng, 0), hours={HOURS[6]: {0: page(PLAN, SEGMENTS, 1)}}, names=Names(SEGMENTS)
    )
    two = replace(lane(rng, 1), hours={})
    history, column = HourHistory(PLAN), PLAN.metric_column(0)
    for since_of_two, value in ((None, 0), (HOURS[5], 1)):
        history.take(covered([having(one, HOURS[2]), having(two, since_of_two)], PLAN))
        selection = lane_views.reading_of([replace(one, hours={})], PLAN).selection
        assert history.rows_of(HOURS[6], SEGMENTS)[0, column] == value
        assert history.summed({HOURS[6]: 1.0}, selection)[0, column] == value
    assert len(METRIC_COLUMNS) == 3
