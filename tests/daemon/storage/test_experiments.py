"""What a changed configuration does to the experiments of a lane that goes on."""

from dataclasses import replace

from relevanced.daemon.events.types import Impression
from relevanced.daemon.experiments.specs import Spec, Tracking
from relevanced.daemon.exporter.mirror import Mirror
from relevanced.daemon.plan import Plan
from relevanced.daemon.storage.commit import ClaimedLane
from tests.builders import BASE_MS, PLAN, SETTLE_MS, claimed, commit, passing, shown
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


def impressions(held: ClaimedLane) -> dict[str, int]:
    return {
        name: sum(arm.impressions for arm in tallies.arms.values())
        for name, tallies in held.lane.experiments.by_name.items()
    }


def after_a_change(before: Plan, after: Plan) -> tuple[dict[str, int], dict[str, int]]:
    """Impressions that count just after the change, and when all has settled; two impressions have
    settled before it, one is open, and one comes later."""
    store = MemoryLane()
    held = claimed(store, plan=before)
    commit(store, held, searched(1, 0), searched(2, 1), searched(3, SETTLE_MS + 2 * BASE_MS))
    commit(store, held, passing(SETTLE_MS + 2 * BASE_MS + 1))
    held = claimed(store, "t2", plan=after)
    commit(store, held, passing(SETTLE_MS + 2 * BASE_MS + 2))
    first = impressions(held)
    commit(store, held, searched(4, SETTLE_MS + 4 * BASE_MS))
    commit(store, held, passing(4 * SETTLE_MS))
    return first, impressions(claimed(store, "t3", plan=after))


def test_what_stays_as_it_is_goes_on() -> None:
    plan = plan_of(spec("a"), spec("b"))
    assert after_a_change(plan, plan) == ({"a": 2, "b": 2}, {"a": 4, "b": 4})


def test_a_change_counts_that_experiment_anew_from_a_pane_of_which_all_is_known() -> None:
    before, after = plan_of(spec("a"), spec("b")), plan_of(spec("a"), spec("b", unit="impression"))
    assert after_a_change(before, after) == ({"a": 2}, {"a": 4, "b": 1})


def test_one_more_experiment_leaves_the_others_alone() -> None:
    before, after = plan_of(spec("a")), plan_of(spec("a"), spec("b"))
    assert after_a_change(before, after) == ({"a": 2}, {"a": 4, "b": 1})


def test_what_is_declared_no_more_is_forgotten() -> None:
    assert after_a_change(plan_of(spec("a"), spec("b")), plan_of(spec("a")))[1] == {"a": 4}


def test_a_reader_holds_what_the_writer_holds() -> None:
    plan, store = plan_of(spec("a"), most=1), MemoryLane()
    held, mirror = claimed(store, plan=plan), Mirror(0, plan)
    for number in range(12):
        commit(store, held, searched(number, number * BASE_MS))
        if number % 3 == 0:
            mirror.apply(delta(store, mirror))
    commit(store, held, passing(3 * SETTLE_MS))
    mirror.apply(delta(store, mirror))
    lane = held.lane
    theirs = replace(lane, experiments=replace(lane.experiments, by_name=dict(mirror.experiments)))
    assert arms_of(theirs) == arms_of(lane) and set(arms_of(lane)) == {"a", "b"}


def test_a_reader_forgets_what_the_writer_has_dropped() -> None:
    store, before = MemoryLane(), plan_of(spec("a"), spec("b"))
    held, mirror = claimed(store, plan=before), Mirror(0, before)
    commit(store, held, searched(1, 0))
    commit(store, held, passing(3 * SETTLE_MS))
    mirror.apply(delta(store, mirror))
    assert set(mirror.experiments) == {"a", "b"}
    held = claimed(store, plan=plan_of(spec("a")))
    commit(store, held, passing(3 * SETTLE_MS + 1))
    mirror.apply(delta(store, mirror))
    assert set(mirror.experiments) == {"a"}
