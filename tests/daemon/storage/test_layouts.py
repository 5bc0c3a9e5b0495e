"""A stored lane that goes to other layouts in the middle of its log: what its owner writes, and
what readers of it show."""

import random
from collections.abc import Mapping, Sequence
from dataclasses import replace
from types import SimpleNamespace
from typing import Final

import msgspec
import numpy as np
import pytest

from relevanced.daemon.config import describe_rows, load
from relevanced.daemon.errors import Damaged
from relevanced.daemon.lane import Lane
from relevanced.daemon.plan import OTHER, Plan
from relevanced.daemon.storage import (
    CLICKS,
    LAYOUTS_KEY,
    ClaimedLane,
    InForce,
    LaneDelta,
    Layouts,
    blob_keys,
    confirm,
    head_of,
    names_of,
    plan_commit,
    plan_repair,
    rebuild,
)
from relevanced.daemon.timing import timing
from relevanced.daemon.views import (
    HourHistory,
    LaneView,
    Mirror,
    PreviousSelection,
    Snapshot,
    busiest,
    counters_of,
    coverage_of,
    covered,
    evaluate,
)
from tests.daemon.lane.test_relayout import (
    CONFIG,
    OTHERS,
    assert_sums_to_the_whole,
    cells,
    compare,
)
from tests.daemon.test_equality import Machine, logs_of
from tests.fakes import MemoryLane
from tests.oracle import Record
from tests.replica import decoder_of, plan_of
from tests.searches import searched
from tests.seeds import seeds
from tests.streams import random_records, topic_names

CONFIGS: Final = {"before": CONFIG, **OTHERS}
PLANS: Final = {name: plan_of(config) for name, config in CONFIGS.items()}


class ChangingMachine(Machine):
    """One lane whose owners go from layout to layout."""

    def __init__(
        self,
        rng: random.Random,
        logs: Mapping[str, Sequence[Record]],
        first: str,
        plans: Mapping[str, Plan] = PLANS,
    ) -> None:
        self.generation, self.name, self.plans = 1, first, plans
        self.stop_at = {topic: len(log) for topic, log in logs.items()}
        super().__init__(rng, 0, logs, CONFIGS.get(first, CONFIG))
        self.plan = plans[first]
        self.claimed = self.claim()

    def pull(self) -> dict[str, list[SimpleNamespace]]:
        offsets = self.claimed.lane.offsets
        return {t: of[: self.stop_at[t] - offsets[t]] for t, of in super().pull().items()}

    def change(self, name: str) -> None:
        self.generation, self.name = self.generation + 1, name
        self.plan = self.plans[name]
        self.decode = decoder_of(CONFIGS.get(name, CONFIG))
        self.claimed = self.claim()

    def read(self) -> ClaimedLane:
        """The lane for its next owner."""
        self.claims += 1
        start = msgspec.json.encode(dict.fromkeys(self.logs, 0))
        head = self.store.claim(f"token-{self.claims}", start)
        in_force = InForce(self.plan, self.generation, self.name)
        layouts = Layouts(in_force, lambda stored: self.plans[stored.digest])
        blobs = self.store.load(head, blob_keys)
        return rebuild(0, layouts, list(self.logs), head, self.store.names, blobs)

    def claim(self, *_: object) -> ClaimedLane:
        while True:
            claimed = self.read()
            if not claimed.outdated:
                return claimed
            commit, fate = plan_repair(claimed), self.rng.random()
            if fate < 0.2:  # died before the commit was sent
                continue
            assert self.store.commit(commit) == "applied"
            if fate < 0.4:  # died before the answer came
                continue
            confirm(claimed, commit)
            return claimed


def run(machine: Machine, share: float = 1.0) -> None:
    """Read at least this share of the log."""
    ends = {topic: int(share * len(log)) for topic, log in machine.logs.items()}
    while any(machine.claimed.lane.offsets[topic] < end for topic, end in ends.items()):
        machine.step(crashes=True)


def read_whole(store: MemoryLane) -> LaneDelta:
    head = head_of(store.fields)
    names = names_of(store.names, head.state.names)[1:]
    pages = {key: store.blobs[key] for key, sequence in store.listed.items() if sequence}
    return LaneDelta(head, True, names, pages)


def view_of(store: MemoryLane, plan: Plan) -> LaneView:
    mirror = Mirror(0, plan)
    mirror.apply(read_whole(store))
    return mirror.view()


def changed_and_undisturbed(seed: int, *names: str) -> tuple[ChangingMachine, Machine]:
    rng = random.Random(seed)
    topics = topic_names(1 + seed % 2)
    records = random_records(rng, topics=len(topics), partitions=1, events=400, config=CONFIG)
    logs = logs_of(searched(records, rng), topics)[0]
    names = names or tuple(rng.choice([*CONFIGS]) for _ in range(rng.choice((2, 2, 3, 4))))
    machine = ChangingMachine(rng, logs, names[0])
    for number, name in enumerate(names[1:], 1):
        run(machine, number / len(names))
        machine.change(name)
    run(machine)
    undisturbed = Machine(rng, 0, logs, CONFIGS[names[-1]])
    run(undisturbed)
    print(f"seed {seed}: {' → '.join(names)}")
    return machine, undisturbed


SEEDS: Final = seeds(15)


@pytest.mark.parametrize("seed", SEEDS)
def test_what_holds_is_stored_as_if_the_layout_had_never_changed(seed: int) -> None:
    machine, undisturbed = changed_and_undisturbed(seed)
    lane, since = machine.claimed.lane, machine.claimed.layouts.since
    compare(lane, undisturbed.claimed.lane, since)
    assert_sums_to_the_whole(lane)
    again = machine.read()
    assert not again.outdated and again.layouts == machine.claimed.layouts
    assert_same_rows(again.lane, lane)


@pytest.mark.parametrize("seed", seeds(6))
def test_grouping_that_was_derived_by_another_rule_holds_from_its_own_instant_on(seed: int) -> None:
    names = ("derived", "derived by another rule", "derived")[seed % 2 :]
    machine, undisturbed = changed_and_undisturbed(seed, *names)
    lane, since = machine.claimed.lane, machine.claimed.layouts.since
    assert compare(lane, undisturbed.claimed.lane, since)
    assert_sums_to_the_whole(lane)
    begins = since.groupings[str(lane.plan.grouping_id("kind"))]
    coverage = coverage_of([view_of(machine.store, lane.plan)], lane.plan)
    assert begins is not None and coverage is not None
    assert coverage.hides("kind", begins - 1) and not coverage.hides("kind", begins)


def assert_same_rows(one: Lane, other: Lane) -> None:
    assert cells(one, one.totals.pages) == cells(other, other.totals.pages)
    for key in one.panes.keys() | other.panes.keys():
        rows = [
            cells(each, each.panes[key].pages) if key in each.panes else {} for each in (one, other)
        ]
        assert rows[0] == rows[1]


FULL: Final = {
    "narrow": replace(plan_of(CONFIG), max_values=1),
    "wide": replace(plan_of(CONFIG), max_values=2),
    "wide, a metric more": replace(plan_of(OTHERS["a metric more"]), max_values=2),
}
"""Groupings have more values than these admit."""


@pytest.mark.parametrize("seed", seeds(8))
def test_groupings_that_are_full_depend_on_the_offsets_of_the_change_alone(seed: int) -> None:
    """Not on batches, crashes and restarts."""
    rng = random.Random(seed)
    records = random_records(rng, topics=1, partitions=1, events=1200, config=CONFIG)
    logs = logs_of(records, topic_names(1))[0]
    names = [*rng.sample([*FULL], 2), rng.choice([*FULL])]
    cuts = [{t: int(len(log) * part) for t, log in logs.items()} for part in (0.4, 0.7, 1)]
    print(f"seed {seed}: {' → '.join(names)}")
    machines = [ChangingMachine(random.Random(seed + n), logs, names[0], FULL) for n in (1, 2)]
    for machine in machines:
        for cut, name in zip(cuts, (*names[1:], None), strict=True):
            machine.stop_at = cut
            while machine.claimed.lane.offsets != cut:
                machine.step(crashes=True)
            if name is not None:
                machine.change(name)
    one, other = (machine.claimed.lane for machine in machines)
    assert_same_rows(one, other)
    assert one.counts == other.counts and any(one.counts["segment_overflow"].values())
    assert [a.seen for a in one.admissions.values()] == [a.seen for a in other.admissions.values()]
    assert_sums_to_the_whole(one)


@pytest.mark.parametrize("seed", SEEDS)
def test_nothing_of_an_earlier_layout_is_left_in_the_store(seed: int) -> None:
    machine, _ = changed_and_undisturbed(seed)
    assert machine.store.blobs.keys() == machine.store.listed.keys()
    plan = machine.claimed.lane.plan
    lengths = {window.length_ms // 1000 for window in plan.timing.windows}
    rows = {key for key in machine.store.blobs if key.startswith("rows:")}
    assert {int(key.split(":")[1]) for key in rows} <= lengths
    if not plan.history_hours:
        assert not any(key.startswith(CLICKS.hours) for key in machine.store.blobs)


@pytest.mark.parametrize("seed", SEEDS)
def test_readers_show_what_an_undisturbed_lane_has_or_nothing(seed: int) -> None:
    machine, undisturbed = changed_and_undisturbed(seed)
    plan = machine.plan
    views = [view_of(one.store, plan) for one in (machine, undisturbed)]
    ours, theirs = (covered([view], plan) for view in views)
    shown, whole = (evaluate(each, plan, now_ms=None) for each in (ours, theirs))
    left_out = set(shown.incomplete) - set(whole.incomplete)
    assert_windows(shown, whole, machine.claimed.lane.plan, ours)
    since = machine.claimed.layouts.since
    if all(instant is None for instant in since.windows.values()):
        assert not left_out
    assert_hours(ours, theirs, plan)


def assert_windows(shown: Snapshot, whole: Snapshot, plan: Plan, views: Sequence[LaneView]) -> None:
    coverage = coverage_of(views, plan)
    at = {segment: row for row, segment in enumerate(shown.segments)}
    theirs = {(each.window, each.view): each for each in whole.windows}
    spans = {span.name: span for span in plan.timing.windows}
    for window in shown.windows:
        assert window.end_ms is not None
        span = spans[window.window]
        first = window.end_ms // span.pane_ms * span.pane_ms - span.length_ms + span.pane_ms
        other = theirs[window.window, window.view]
        expected = coverage.without_hidden(other.rows, whole.segments, first)
        for segment, row in zip(whole.segments, expected, strict=True):
            here = window.rows[at[segment]] if segment in at else np.zeros_like(row)
            np.testing.assert_array_equal(here, row, str((window.window, window.view, segment)))


def assert_hours(ours: Sequence[LaneView], theirs: Sequence[LaneView], plan: Plan) -> None:
    coverage, histories = coverage_of(ours, plan), (HourHistory(plan), HourHistory(plan))
    for history, views in zip(histories, (ours, theirs), strict=True):
        history.take(views)
    segments = sorted({segment for view in theirs for segment in view.names.segments})
    for start in histories[0].starts:
        found, expected = (history.rows_of(start, segments) for history in histories)
        expected = coverage.without_hidden(expected, segments, start)
        np.testing.assert_array_equal(found, expected, str(start))
    assert set(histories[0].starts) == {s for s in histories[1].starts if s >= coverage.hours}


HISTORIES: Final = {
    name: replace(plan_of(CONFIG), history_hours=hours)
    for name, hours in {"none": 0, "short": 2, "long": 12}.items()
}


@pytest.mark.parametrize("seed", seeds(8))
def test_no_hour_lacks_the_lanes_that_kept_less(seed: int) -> None:
    """Also while one of them does not keep more yet, and where one is behind the other."""
    rng, plan = random.Random(seed), HISTORIES["long"]
    histories, shares = (HourHistory(plan), HourHistory(plan)), (0.7, rng.choice((0.8, 1)))
    less, has_followed = rng.choice(("none", "short")), rng.choice((False, True))
    pairs = []
    for number, share in enumerate(shares):
        records = random_records(rng, topics=1, partitions=1, events=250, config=CONFIG)
        logs = logs_of(records, topic_names(1))[0]
        machine = ChangingMachine(rng, logs, rng.choice(("long", less)), HISTORIES)
        run(machine, share / 2)
        machine.change(less)
        run(machine, share * rng.choice((0.6, 0.9)))
        if number or has_followed:
            machine.change("long")
        run(machine, share)
        whole = ChangingMachine(rng, logs, "long", HISTORIES)
        whole.stop_at = dict(machine.claimed.lane.offsets)
        while whole.claimed.lane.offsets != whole.stop_at:
            whole.step(crashes=False)
        pairs.append([replace(view_of(one.store, plan), lane=number) for one in (machine, whole)])
    print(f"seed {seed}: {less}, {shares}, {has_followed}")
    for history, views in zip(histories, zip(*pairs, strict=True), strict=True):
        history.take(covered(views, plan))
    segments = sorted({segment for _, view in pairs for segment in view.names.segments})
    for start in set(histories[0].starts) - histories[0].lost:
        found, expected = (history.rows_of(start, segments) for history in histories)
        np.testing.assert_array_equal(found, expected, str(start))
    if less == "short":
        assert set(histories[0].starts) - histories[0].lost


@pytest.mark.parametrize("seed", seeds(8))
def test_other_of_a_new_grouping_starts_at_0(seed: int) -> None:
    rng = random.Random(seed)
    records = random_records(rng, topics=1, partitions=1, events=300, config=CONFIG)
    logs = logs_of(records, topic_names(1))[0]
    machine = ChangingMachine(rng, logs, "no grouping")
    run(machine, 0.7)
    machine.change("before")
    plan = machine.plan
    views = [view_of(machine.store, plan)]
    snapshot = evaluate(covered(views, plan), plan, now_ms=None)
    counters, _ = counters_of(snapshot, busiest(snapshot, plan), plan, PreviousSelection())
    others = [row for row, segment in enumerate(counters.segments) if segment[1] == OTHER]
    assert len(others) == len(plan.groupings) and snapshot.totals[0, 0]
    assert not counters.rows[others].any()


def test_a_change_of_experiments_alone_writes_no_rows() -> None:
    rng = random.Random(1)
    logs = logs_of(random_records(rng, topics=1, partitions=1, config=CONFIG), topic_names(1))[0]
    machine = ChangingMachine(rng, logs, "before")
    run(machine, 0.5)
    CONFIGS["the same"] = replace(CONFIG)
    machine.generation, machine.name = 2, "the same"
    claimed = machine.read()
    assert not claimed.outdated
    assert set(plan_commit(claimed).blobs) == {LAYOUTS_KEY}


def test_one_layout_is_kept_that_admitted_other_values_however_often_a_lane_changes() -> None:
    rng = random.Random(3)
    logs = logs_of(random_records(rng, topics=1, partitions=1, config=CONFIG), topic_names(1))[0]
    plan = replace(PLANS["before"], history_hours=0)
    windows = [(span.name, span.length_ms // 1000) for span in plan.timing.windows]
    longer = timing([*windows, ("100m", 6000)], 60, 5)
    plans = {"short": plan, "long": replace(plan, timing=longer)}
    plans["a metric less"] = replace(plan, metrics=plan.metrics[1:])
    machine = ChangingMachine(rng, logs, "short", plans)
    run(machine, 0.5)
    for name in ("long", "short", "long", "short", "a metric less", "short"):
        machine.change(name)
        kept = machine.claimed.layouts.layouts
        assert len(kept) == len({one.admission for one in kept}) == 2, name


def test_a_layout_tells_how_many_values_are_admitted() -> None:
    config = load('[kafka]\ntopics = ["t"]\n[segments]\nmax_segments = 70\n', {}, "test")
    layout = InForce(config.plan, 1, "", describe_rows(config)).stored()
    assert layout.admission == (86_400_000, config.plan.timing.longest.pane_ms, "1000")


def test_a_lane_without_its_layouts_is_damaged() -> None:
    rng = random.Random(2)
    logs = logs_of(random_records(rng, topics=1, partitions=1, config=CONFIG), topic_names(1))[0]
    machine = ChangingMachine(rng, logs, "before")
    run(machine)
    del machine.store.blobs[LAYOUTS_KEY]
    with pytest.raises(Damaged, match=LAYOUTS_KEY):
        machine.read()
