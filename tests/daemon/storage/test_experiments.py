"""What a changed configuration does to the experiments of a lane that continues."""

from dataclasses import replace

import pytest

from relevanced.daemon.events.types import Impression
from relevanced.daemon.experiments.specs import Spec, Tracking
from relevanced.daemon.exporter.mirror import Mirror
from relevanced.daemon.plan import Plan
from relevanced.daemon.storage.commit import ClaimedLane
from tests.builders import BASE_MS, PLAN, SETTLE_MS, START_MS, claimed, commit, passing, shown
from tests.daemon.exporter.test_mirror import delta
from tests.fakes import MemoryLane
from tests.replica import arms_of

METRICS = tuple(metric.name for metric in PLAN.metrics)
OTHERS = Spec("", "control", 1_000, METRICS, declared=False)


def plan_of(*specs: Spec, most: int = 0) -> Plan:
    return replace(PLAN, tracking=Tracking({spec.name: spec for spec in specs}, most, OTHERS))


def spec(name: str, **changes: object) -> Spec:
    return replace(Spec(name, "control", 1_000, METRICS), **changes)  # type: ignore[arg-type]


def searched(number: int, at_ms: int) -> Impression:
    dealt = {"a": "control", "b": "treatment"}
    return shown(at_ms, of=f"q{number}", user_id=f"u{number}", experiments=dealt)


def impressions(owned: ClaimedLane) -> dict[str, int]:
    return {
        name: sum(arm.impressions for arm in tallies.arms.values())
        for name, tallies in owned.lane.experiments.by_name.items()
    }


def after_a_change(before: Plan, after: Plan) -> tuple[dict[str, int], dict[str, int]]:
    """Impressions that count just after the change, and when all has settled; two impressions have
    settled before it, one is open, and one comes later."""
    store = MemoryLane()
    owned = claimed(store, plan=before)
    commit(store, owned, searched(1, 0), searched(2, 1), searched(3, SETTLE_MS + 2 * BASE_MS))
    commit(store, owned, passing(SETTLE_MS + 2 * BASE_MS + 1))
    owned = claimed(store, "t2", plan=after)
    commit(store, owned, passing(SETTLE_MS + 2 * BASE_MS + 2))
    first = impressions(owned)
    commit(store, owned, searched(4, SETTLE_MS + 4 * BASE_MS))
    commit(store, owned, passing(4 * SETTLE_MS))
    return first, impressions(claimed(store, "t3", plan=after))


def test_unchanged_experiments_continue() -> None:
    plan = plan_of(spec("a"), spec("b"))
    assert after_a_change(plan, plan) == ({"a": 2, "b": 2}, {"a": 4, "b": 4})


def test_a_changed_experiment_counts_anew_from_the_first_whole_pane() -> None:
    before, after = plan_of(spec("a"), spec("b")), plan_of(spec("a"), spec("b", unit="impression"))
    assert after_a_change(before, after) == ({"a": 2}, {"a": 4, "b": 1})


def test_one_more_experiment_leaves_the_others_alone() -> None:
    before, after = plan_of(spec("a")), plan_of(spec("a"), spec("b"))
    assert after_a_change(before, after) == ({"a": 2}, {"a": 4, "b": 1})


@pytest.mark.parametrize(("later", "since_ms"), [(0, 3 * BASE_MS), (1, 400_000), (2, 800_000)])
def test_a_new_experiment_waits_for_no_wrong_clock(later: int, since_ms: int) -> None:
    """But for what is pending: a topic with few events follows some of them behind."""
    store = MemoryLane()
    owned = claimed(store, plan=plan_of(spec("a")))
    sparse = [searched(3 + n, 390_000 + n * 400_000) for n in range(later)]
    wrong = [searched(9, 10**10), searched(2, 2 * BASE_MS)]
    commit(store, owned, searched(1, 0), *wrong, *sparse)
    back = claimed(store, "t2", plan=plan_of(spec("a"), spec("b"))).lane
    assert back.experiments.since_ms["b"] == START_MS + since_ms


def test_an_experiment_that_is_no_longer_declared_is_dropped() -> None:
    assert after_a_change(plan_of(spec("a"), spec("b")), plan_of(spec("a")))[1] == {"a": 4}


def test_a_reader_has_what_the_writer_has() -> None:
    plan, store = plan_of(spec("a"), most=1), MemoryLane()
    owned, mirror = claimed(store, plan=plan), Mirror(0, plan)
    for number in range(12):
        commit(store, owned, searched(number, number * BASE_MS))
        if number % 3 == 0:
            mirror.apply(delta(store, mirror))
    commit(store, owned, passing(3 * SETTLE_MS))
    mirror.apply(delta(store, mirror))
    lane = owned.lane
    theirs = replace(lane, experiments=replace(lane.experiments, by_name=dict(mirror.experiments)))
    assert arms_of(theirs) == arms_of(lane) and set(arms_of(lane)) == {"a", "b"}


def test_a_reader_drops_what_the_writer_has_dropped() -> None:
    store, before = MemoryLane(), plan_of(spec("a"), spec("b"))
    owned, mirror = claimed(store, plan=before), Mirror(0, before)
    commit(store, owned, searched(1, 0))
    commit(store, owned, passing(3 * SETTLE_MS))
    mirror.apply(delta(store, mirror))
    assert set(mirror.experiments) == {"a", "b"}
    owned = claimed(store, plan=plan_of(spec("a")))
    commit(store, owned, passing(3 * SETTLE_MS + 1))
    mirror.apply(delta(store, mirror))
    assert set(mirror.experiments) == {"a"}
