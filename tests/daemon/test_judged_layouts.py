"""Judged rows of a lane that goes to other windows and groupings: what stays goes on, what is new
equals a run that always had it from its instant on, and readers show that or nothing."""

import random
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Final, TypeAlias

import numpy as np
import pytest

from relevanced.daemon.exporter import MeasureScores, Scorer, judged_measure
from relevanced.daemon.lane import BEFORE, PAGE_ROWS, Lane, OptionalRows, PagedRows, Since
from relevanced.daemon.plan import Plan
from relevanced.daemon.recompute.proof import as_text
from relevanced.daemon.views import busiest, covered, evaluate
from tests.daemon.recompute.verify.test_judged_rows import lane as machine_of, proven
from tests.daemon.storage.test_layouts import view_of
from tests.daemon.test_judged_equality import JudgedMachine
from tests.daemon.test_queries_equality import CONFIG
from tests.oracle import OracleConfig
from tests.replica import plan_of
from tests.seeds import seeds

SHAPES: Final[Mapping[str, OracleConfig]] = {
    "as it was": CONFIG,
    "a window more": replace(CONFIG, windows_s=(30, 60, 120, 600)),
    "a long window more": replace(CONFIG, windows_s=(30, 120, 600, 900)),
    "a window less": replace(CONFIG, windows_s=(30, 600)),
    "no grouping": replace(CONFIG, groupings=()),
    "groupings turned": replace(CONFIG, groupings=CONFIG.groupings[::-1]),
    "both": replace(CONFIG, windows_s=(30, 90, 600), groupings=CONFIG.groupings[:1]),
}
SEEDS: Final = seeds(8)
Cells: TypeAlias = dict[tuple[str, str], list[int]]
"""(grouping, segment) → its row, where it is not 0."""


def begun(seed: int, topics: int = 1) -> JudgedMachine:
    """A lane that will be graded by one file, and has read nothing yet."""
    machine = machine_of(random.Random(seed), topics)
    assert machine.files is not None
    machine.files = dict([*sorted(machine.files.items())][:1])
    machine.claimed = machine.claim()
    return machine


def go_to(machine: JudgedMachine, name: str) -> None:
    shape = plan_of(SHAPES[name])
    machine.plan = replace(machine.plan, timing=shape.timing, groupings=shape.groupings)
    machine.layout += f" {name}"
    machine.relay()


def changed_and_undisturbed(seed: int) -> tuple[JudgedMachine, JudgedMachine]:
    """A lane that goes from layout to layout, and one that was always under its last one."""
    rng = random.Random(seed)
    names = rng.sample([*SHAPES], rng.choice((2, 3, 4)))
    print(f"seed {seed}: {' → '.join(names)}")
    machines = [begun(seed, 1 + seed % 2) for _ in range(2)]
    changing, undisturbed = machines
    for number, name in enumerate(names):
        go_to(changing, name)
        share = (number + 1) / len(names)
        while any(
            changing.claimed.lane.offsets[topic] < share * len(log)
            for topic, log in changing.logs.items()
        ):
            changing.step(crashes=True)
    go_to(undisturbed, names[-1])
    undisturbed.run(crashes=False)
    return changing.run(crashes=True), undisturbed


def cells(lane: Lane, rows: PagedRows) -> Cells:
    names = ["all", *(",".join(attributes) for attributes in lane.groupings)]
    return {
        (names[of], segment): row
        for page, of_page in rows.pages.items()
        for (of, segment), row in zip(
            lane.segments.names[page * PAGE_ROWS :], of_page.tolist(), strict=False
        )
        if names[of] in lane.plan.grouping_names and any(row)
    }


def judged_of(lane: Lane) -> OptionalRows:
    assert lane.judged is not None
    return lane.judged


def starts_of(lane: Lane) -> Iterator[tuple[object, int, int | None, PagedRows]]:
    """(which, start, length of the window, rows) of each pane and hour."""
    for (window, start), rows in judged_of(lane).panes.items():
        length_ms = lane.plan.timing.windows[window].length_ms
        yield (length_ms, start), start, length_ms, rows
    for start, rows in judged_of(lane).hours.items():
        yield ("hour", start), start, None, rows


def compare(changed: Lane, undisturbed: Lane, since: Since) -> int:
    """Assert that all that holds is equal; returns how many rows were compared."""
    compared, nothing = 0, PagedRows(judged_of(changed).width)
    ours, theirs = ({each[0]: each for each in starts_of(one)} for one in (changed, undisturbed))
    for key in ours.keys() | theirs.keys():
        _, start, length_ms, _ = (ours | theirs)[key]
        begins = since.hours if length_ms is None else since.windows[length_ms]
        found, expected = (
            cells(lane, of[key][3] if key in of else nothing)
            for lane, of in ((changed, ours), (undisturbed, theirs))
        )
        for segment in found.keys() | expected.keys():
            first = begins, since.groupings[str(changed.plan.grouping_id(segment[0]))]
            if segment[1] != BEFORE and all(each is None or start >= each for each in first):
                assert found.get(segment) == expected.get(segment), (key, segment, since)
                compared += 1
    return compared


def assert_sums_to_the_whole(lane: Lane) -> None:
    for key, _, _, rows in starts_of(lane):
        found = cells(lane, rows)
        for grouping in lane.plan.grouping_names[1:]:
            parts = [np.array(row) for (of, _), row in found.items() if of == grouping]
            whole = found.get(("all", "all"), [0] * judged_of(lane).width)
            assert np.sum(parts, axis=0).tolist() == whole or not any(whole), (key, grouping)


@pytest.mark.parametrize("seed", SEEDS)
def test_judged_rows_that_hold_are_as_if_the_layout_had_never_changed(seed: int) -> None:
    machine, undisturbed = changed_and_undisturbed(seed)
    lane = machine.claimed.lane
    assert (judged_of(lane).since_ms, judged_of(lane).from_slot) == (0, 0)
    assert compare(lane, undisturbed.claimed.lane, machine.claimed.layouts.since)
    stored = [judged_of(one).stored_hours for one in (lane, undisturbed.claimed.lane)]
    assert stored[0].keys() == stored[1].keys()
    assert_sums_to_the_whole(lane)
    assert lane.counts["judged_late"] == undisturbed.claimed.lane.counts["judged_late"]
    again = machine.claim()
    assert not again.outdated
    ours, theirs = (
        {key: cells(of, rows) for key, _, _, rows in starts_of(of)} for of in (lane, again.lane)
    )
    assert ours == theirs


def scores_of(machine: JudgedMachine, plan: Plan) -> MeasureScores:
    views = covered([view_of(machine.store, plan)], plan)
    whole = evaluate(views, plan)
    return Scorer(judged_measure(plan)).of(views, whole, busiest(whole, plan))


@pytest.mark.parametrize("seed", SEEDS)
def test_readers_show_of_judged_rows_what_an_undisturbed_lane_has_or_nothing(seed: int) -> None:
    machine, undisturbed = changed_and_undisturbed(seed)
    ours, theirs = (scores_of(one, undisturbed.plan) for one in (machine, undisturbed))
    assert ours.until_ms == theirs.until_ms and theirs.windows
    expected = {window.window: window for window in theirs.windows}
    for window in ours.windows:
        rows = ours.known(window.rows, ours.first_of_window(window))
        for segment, row in zip(ours.segments, rows.tolist(), strict=True):
            other = expected[window.window].rows[theirs.segments.index(segment)]
            known = ~np.isnan(row)
            np.testing.assert_array_equal(np.array(row)[known], other[known])
            assert known.all() or segment[0] != "all"
    assert ours.hour_sources.starts == theirs.hour_sources.starts
    wide = ours.plan.row_width
    for start in ours.hour_sources.starts:
        found, other = (
            each.hour_sources.by_row(each.hour_sources.known(start), each.segments)
            for each in (ours, theirs)
        )
        assert found.shape[1] == other.shape[1] == wide and other.all() and found[0].all()


@pytest.mark.parametrize("seed", SEEDS)
def test_judged_rows_of_a_lane_that_went_to_other_layouts_are_proven(seed: int) -> None:
    machine, _ = changed_and_undisturbed(seed)
    assert machine.files is not None
    found = proven(machine, machine.files, machine.files)
    assert not found.differences and found.judged_hours, as_text([found])
