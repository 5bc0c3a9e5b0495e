"""What a changed configuration does to the experiments of a lane that continues."""

from dataclasses import replace

import pytest

from relevanced.daemon.events import Impression, timestamp_text
from relevanced.daemon.experiments import (
    Spec,
    Tallies,
    Tracking,
    findings,
    report_table,
    tallies as tallies_module,
)
from relevanced.daemon.exporter import Publisher
from relevanced.daemon.lane import Lane
from relevanced.daemon.plan import Plan
from relevanced.daemon.storage import (
    ClaimedLane,
    confirm,
    experiment_day_key,
    plan_commit,
)
from relevanced.daemon.views import Mirror
from tests.builders import (
    BASE_MS,
    PLAN,
    SETTLE_MS,
    START_MS,
    claimed,
    commit,
    lane_of,
    passing,
    settled,
    shown,
)
from tests.daemon.views.test_mirror import delta, read
from tests.fakes import MemoryLane
from tests.replica import arms_of

DAY_MS = 280_000
"""Shorter than the jump of a watermark that must be confirmed."""
METRICS = tuple(metric.name for metric in PLAN.metrics)
OTHERS = Spec("", "control", 1_000, METRICS, declared=False)


@pytest.fixture
def short_days(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tallies_module, "DAY_MS", DAY_MS)


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


def test_a_discovered_experiment_begins_anew_when_it_is_declared() -> None:
    """And the other way round; those that are discovered before and after go on."""
    discovered, declared = plan_of(most=8), plan_of(spec("a"), most=8)
    assert after_a_change(discovered, declared) == ({"b": 2}, {"a": 1, "b": 4})
    assert after_a_change(declared, discovered)[0] == {"b": 2}


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


@pytest.mark.usefixtures("short_days")
@pytest.mark.parametrize("most", [0, 8])
@pytest.mark.parametrize("is_declared", [True, False])
def test_users_of_a_finished_experiment_are_erased_by_its_section_and_lanes_go_on(
    is_declared: bool, most: int
) -> None:
    """As the guide has it: the section is removed, or added where there is none. Nothing is deleted
    by hand, and each lane lists what is there."""
    without, both = plan_of(spec("b"), most=most), plan_of(spec("a"), spec("b"), most=most)
    plans = [both, without] if is_declared else [plan_of(spec("b"), most=8), both, without]
    store = MemoryLane()
    owned = claimed(store, plan=plans[0])
    for day in range(2):
        commit(store, owned, searched(day, day * DAY_MS))
        commit(store, owned, passing(day * DAY_MS + 2 * SETTLE_MS))
    assert any(":day:" in key for key in keys_of(store, "a"))
    assert impressions(owned) == {"a": 2, "b": 2}
    for number, plan in enumerate(plans[1:], 2):
        owned = claimed(store, f"t{number}", plan=plan)
        planned = plan_commit(owned)
        assert store.commit(planned) == "applied"
        confirm(owned, planned)
        assert not keys_of(store, "a") and keys_of(store, "b")
        assert not store.verify(owned.token, owned.sequence)
    later = shown(2 * DAY_MS, of="q3", user_id="u3", experiments={"b": "control"})
    commit(store, owned, later)
    commit(store, owned, passing(2 * DAY_MS + 2 * SETTLE_MS))
    assert impressions(claimed(store, "t9", plan=plans[-1])) == {"b": 3}


def keys_of(store: MemoryLane, experiment: str) -> list[str]:
    """Its header, its users and its days."""
    own = experiment_day_key(experiment, 0).removesuffix(":day:0")
    return [key for key in {*store.blobs, *store.listed} if key.startswith(own)]


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


def days_read(mirror: Mirror) -> dict[str, dict[int, int]]:
    """Experiment → start of an ended day → impressions up to its end, as a reader sees it."""
    found = mirror.view().experiments
    return {name: impressions_of_days(one) for name, one in found.items()}


def impressions_of_days(tallies: Tallies) -> dict[int, int]:
    return {
        day_ms: sum(arm.impressions for arm in arms.values())
        for day_ms, arms in tallies.ends.items()
    }


@pytest.mark.usefixtures("short_days")
def test_days_are_written_once_and_read_back() -> None:
    plan, store = plan_of(spec("a")), MemoryLane()
    owned, mirror = claimed(store, plan=plan), Mirror(0, plan)
    first_ms = START_MS - START_MS % DAY_MS
    writes = []
    for day in range(4):
        commit(store, owned, searched(day, day * DAY_MS), searched(day + 100, day * DAY_MS + 1))
        for later in range(3):
            before = dict(store.blobs)
            commit(store, owned, passing(day * DAY_MS + (later + 2) * SETTLE_MS))
            writes += [key for key in store.blobs if store.blobs[key] != before.get(key)]
        mirror.apply(delta(store, mirror))
    expected = {"a": {first_ms + day * DAY_MS: 2 * (day + 1) for day in range(3)}}
    assert days_read(mirror) == expected
    assert sorted(key for key in writes if ":day:" in key) == [
        experiment_day_key("a", day_ms) for day_ms in expected["a"]
    ]
    again = claimed(store, "t2", plan=plan)
    for lane in (owned.lane, again.lane):
        assert impressions_of_days(lane.experiments.by_name["a"]) == expected["a"]
        assert lane.experiments.by_name["a"].has_all_days


@pytest.mark.usefixtures("short_days")
def test_days_of_an_experiment_that_began_anew_are_gone() -> None:
    """Also for a reader that had them, and where the new one has the name of the old."""
    store, plans = MemoryLane(), [plan_of(spec("a")), plan_of(spec("a", unit="impression"))]
    mirror, days = Mirror(0, plans[0]), list[dict[str, dict[int, int]]]()
    for number, plan in enumerate(plans):
        owned = claimed(store, f"t{number}", plan=plan)
        planned = plan_commit(owned)
        assert store.commit(planned) == "applied"
        confirm(owned, planned)
        for day in range(2 * number, 2 * number + 3):
            commit(store, owned, searched(day, day * DAY_MS))
            commit(store, owned, passing(day * DAY_MS + 2 * SETTLE_MS))
            mirror.apply(delta(store, mirror))
        days.append(days_read(mirror))
    first_ms = START_MS - START_MS % DAY_MS
    assert days[0] == {"a": {first_ms: 1, first_ms + DAY_MS: 2}}
    assert days[1] == {"a": {first_ms + 3 * DAY_MS: 1}}
    kept = [key for key in store.blobs if ":day:" in key]
    assert kept == [experiment_day_key("a", first_ms + 3 * DAY_MS)]


@pytest.mark.usefixtures("short_days")
@pytest.mark.parametrize(("day", "most"), [(2.0, 2), (2.5, 2), (4.0, 0)])
def test_impressions_beyond_an_end_that_is_set_afterwards_are_said(day: float, most: int) -> None:
    """One on each of four days; no fewer than there are, as days are whole."""
    first_ms = START_MS - START_MS % DAY_MS
    running, ended = plan_of(spec("a")), plan_of(spec("a", end_ms=first_ms + int(day * DAY_MS)))
    said = []
    for plan in (running, ended):
        store = MemoryLane()
        owned = claimed(store, plan=plan)
        for number in range(4):
            at_ms = first_ms - START_MS + number * DAY_MS
            commit(store, owned, searched(number, at_ms))
            commit(store, owned, passing(at_ms + 2 * SETTLE_MS))
        lanes = [claimed(store, "t2", plan=ended).lane.experiments.by_name]
        (found,) = findings(lanes, ended.tracking, PLAN.metrics, None, None).experiments
        said += [one for one in found.warnings if "impressions from the end" in one]
    assert [one.split(" impressions")[0] for one in said] == [f"up to {most}"] * (most > 0)


def users_of(lane: Lane) -> int:
    return sum(len(arm.users) for arm in lane.experiments.by_name["a"].arms.values())


@pytest.mark.parametrize("is_late", [False, True])
def test_users_are_counted_anew_when_the_planned_shares_change(is_late: bool) -> None:
    """Tallies go on. A change that is declared late holds from then on."""
    changed = spec("a", ramp=((START_MS + 2 * BASE_MS, (("control", 1.0), ("treatment", 1.0))),))
    store = MemoryLane()
    owned = claimed(store, plan=plan_of(spec("a") if is_late else changed))
    commit(store, owned, searched(1, 0), searched(2, 1), searched(3, 2 * BASE_MS))
    commit(store, owned, passing(2 * SETTLE_MS))
    assert users_of(owned.lane) == (3 if is_late else 1)
    owned = claimed(store, "t2", plan=plan_of(changed))
    commit(store, owned, searched(4, 3 * SETTLE_MS))
    commit(store, owned, passing(6 * SETTLE_MS))
    back = claimed(store, "t3", plan=plan_of(changed)).lane
    assert users_of(owned.lane) == users_of(back) == (1 if is_late else 2)
    assert impressions(owned) == {"a": 4}


@pytest.mark.parametrize("is_postponed", [False, True])
def test_users_are_said_to_be_those_since_they_are_counted(is_postponed: bool) -> None:
    """Whatever is declared afterwards: a change of long ago, or of later than one that was
    reached."""
    halves = (("control", 1.0), ("treatment", 1.0))
    soon, later = (
        plan_of(spec("a", ramp=((START_MS + panes * BASE_MS, halves),))) for panes in (2, 900)
    )
    plans = (soon, later) if is_postponed else (plan_of(spec("a")), soon)
    store, at_ms = MemoryLane(), [0, 2 * BASE_MS, 3 * SETTLE_MS]
    owned = claimed(store, plan=plans[0])
    commit(store, owned, searched(1, at_ms[0]), searched(2, at_ms[1]))
    commit(store, owned, passing(2 * SETTLE_MS))
    owned = claimed(store, "t2", plan=plans[1])
    commit(store, owned, searched(3, at_ms[2]))
    commit(store, owned, passing(6 * SETTLE_MS))
    lanes = [claimed(store, "t3", plan=plans[1]).lane.experiments.by_name]
    (found,) = findings(lanes, plans[1].tracking, PLAN.metrics, None, None).experiments
    since_ms = lanes[0]["a"].users_since_ms
    since = [START_MS + each - each % BASE_MS >= since_ms for each in at_ms]
    assert found.variants[0].users == sum(since) == (2 if is_postponed else 1)
    assert found.users_since == timestamp_text(since_ms)
    assert f"users are those since {found.users_since};" in report_table(found, None)


def test_experiments_of_a_lane_that_began_anew_count_from_there_and_say_what_they_lack() -> None:
    """Also while it waits for its first commit, and after later ones; not those that are declared
    afterwards."""
    plan, more = plan_of(spec("a")), plan_of(spec("a"), spec("b"))
    store, since_ms = MemoryLane(), START_MS + 2 * BASE_MS
    claimed(store, "t1", plan=plan)
    begin = store.fields["offsets"]
    store.begin_anew("t1", "t2", begin, since_ms=since_ms - BASE_MS + 1)
    view = read(store, plan=plan).view()
    assert (view.lost_before_ms, view.experiments_lost_before) == (since_ms, {"a": since_ms})
    owned = claimed(store, "t3", plan=plan)
    commit(store, owned, searched(1, BASE_MS), searched(2, 2 * BASE_MS))
    commit(store, owned, passing(3 * SETTLE_MS))
    owned = claimed(store, "t4", plan=more)
    commit(store, owned, searched(3, 5 * SETTLE_MS))
    commit(store, owned, passing(8 * SETTLE_MS))
    assert impressions(owned) == {"a": 2, "b": 1}
    reading = Publisher(more).publish([read(store, plan=more).view()], START_MS).reading
    found = reading.experiments.experiments
    lost = f"what was counted there before {timestamp_text(since_ms)} is lost"
    assert [any(lost in text for text in one.warnings) for one in found] == [True, False]


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


def test_an_experiment_runs_until_all_until_its_end_has_settled() -> None:
    plan = plan_of(spec("a", end_ms=START_MS + 4 * BASE_MS))
    store, publisher, said = MemoryLane(), Publisher(plan), list[tuple[str, int]]()
    owned = claimed(store, plan=plan)
    commit(store, owned, *(searched(n, n * BASE_MS) for n in range(4)))
    for wait_ms in (0, SETTLE_MS - 1, SETTLE_MS):
        at_ms = 4 * BASE_MS + wait_ms
        commit(store, owned, passing(at_ms))
        view = read(store, plan=plan).view()
        reading = publisher.publish([view], START_MS + at_ms, with_series=False).reading
        (found,) = reading.experiments.experiments
        said.append((found.status, found.impressions))
    assert said == [("waiting", 0), ("running", 3), ("ended", 4)]


@pytest.mark.parametrize("later_panes", [60, None])
def test_an_end_that_is_moved_once_it_has_passed_leaves_a_gap_that_is_said(
    later_panes: int | None,
) -> None:
    """And that what proves the stored tallies leaves out as well."""

    def ending(panes: int | None) -> Plan:
        return plan_of(spec("a", end_ms=None if panes is None else START_MS + panes * BASE_MS))

    def said(plan: Plan, lane: Lane) -> list[str]:
        lanes = [lane.experiments.by_name]
        (found,) = findings(lanes, plan.tracking, PLAN.metrics, None, None).experiments
        return [text for text in found.warnings if "are not counted" in text]

    store, plans = MemoryLane(), (ending(20), ending(later_panes))
    searches = [searched(n, n * BASE_MS) for n in range(80)]
    owned = claimed(store, plan=plans[0])
    commit(store, owned, *searches[:30])
    commit(store, owned, *searches[30:40])
    assert said(plans[0], owned.lane) == [], "it has ended"
    owned = claimed(store, "t2", plan=plans[1])
    assert "00Z on are not counted" in said(plans[1], owned.lane)[0]
    commit(store, owned, *searches[40:])
    commit(store, owned, passing(80 * BASE_MS + 3 * SETTLE_MS))
    back = claimed(store, "t3", plan=plans[1])
    missed = back.lane.experiments.by_name["a"].missed
    ((from_ms, until_ms),) = missed[:1]
    first, last = (from_ms - START_MS) // BASE_MS, (until_ms - START_MS) // BASE_MS
    assert first == 20 and 30 < last < 40
    expected = (later_panes or 80) - (last - first)
    assert impressions(back) == {"a": expected}
    stretch = f"{timestamp_text(from_ms)} to {timestamp_text(until_ms)}"
    assert said(plans[1], back.lane)[0].startswith(f"impressions from {stretch} are")
    proven = lane_of(plan=plans[1])
    proven.experiments.passed_over["a"] = missed
    settled(proven, *searches, passing(80 * BASE_MS + 3 * SETTLE_MS))
    assert proven.experiments.by_name["a"].arms["control"].impressions == expected


def test_a_lane_knows_when_it_last_dropped_silent_experiments(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(tallies_module, "SILENT_MS", 10 * BASE_MS)
    plan, store = plan_of(most=1), MemoryLane()
    owned = claimed(store, plan=plan)
    first, second = (
        shown(panes * BASE_MS, of=f"q{name}", user_id="u", experiments={name: "control"})
        for name, panes in (("a", 0), ("b", 30))
    )
    commit(store, owned, first)
    commit(store, owned, second)
    commit(store, owned, passing(40 * BASE_MS + 3 * SETTLE_MS))
    owned = claimed(store, "t2", plan=plan)
    commit(store, owned, passing(41 * BASE_MS + 3 * SETTLE_MS))
    dropped_ms = START_MS + 30 * BASE_MS
    assert impressions(owned) == {"b": 1}
    assert read(store, plan=plan).view().experiments_dropped_ms == dropped_ms
    assert claimed(store, "t3", plan=plan).lane.experiments.dropped_ms == dropped_ms
