"""Busy units: followed, named, left out beside, and capped."""

from typing import Final

import numpy as np
import pytest

from relevanced.daemon.experiments import (
    Arm,
    Busiest,
    Tallies,
    merge_tallies,
    report_table,
    tallies,
)
from relevanced.metrics import bucket_indices, user_hashes
from tests.arms import arm, finding
from tests.builders import BASE_MS, SETTLE_MS, claimed, commit, passing, shown
from tests.daemon.storage.test_experiments import DAY_MS, plan_of, searched, spec
from tests.fakes import MemoryLane
from tests.seeds import seeds

[BOT] = user_hashes(["bot"])
SHARE: Final = 1 / 129


@pytest.mark.parametrize("seed", seeds(20))
def test_a_unit_with_more_than_its_share_is_followed(seed: int) -> None:
    """However impressions are dealt to panes and lanes."""
    print(f"seed {seed}")
    rng = np.random.default_rng(seed)
    users = np.minimum(rng.zipf(1.3, 20_000), 5_000).astype(np.uint64)
    lanes = [Busiest(), Busiest()]
    for pane in np.array_split(users, 100):
        lanes[rng.integers(2)].add(Busiest.of(pane))
    found = Busiest()
    for lane in lanes:
        found.add(lane)
    counts = dict(zip(found.units.tolist(), found.impressions.tolist(), strict=True))
    units, impressions = np.unique(users, return_counts=True)
    for unit, count in zip(units.tolist(), impressions.tolist(), strict=True):
        least = count - SHARE * len(users)
        assert least <= counts.get(unit, 0) <= count
    assert len(counts) <= 128


@pytest.mark.parametrize("seed", seeds(20))
def test_panes_that_are_added_in_turn_are_as_if_added_one_by_one(seed: int) -> None:
    """Whether panes have one impression or hundreds, of few users or of ever new ones."""
    print(f"seed {seed}")
    rng = np.random.default_rng(seed)
    users = np.minimum(rng.zipf(rng.choice((1.05, 1.3, 2.0)), 3_000), 10**6).astype(np.uint64)
    panes = np.sort(rng.integers(0, rng.choice((3, 300, 9_000)), len(users)))
    found, expected = Busiest(), Busiest()
    for part in np.array_split(np.arange(len(users)), 4):
        found.add_in_turn(users[part], panes[part])
        for pane in np.unique(panes[part]):
            expected.add(Busiest.of(users[part][panes[part] == pane]))
    for of in ("units", "credits", "impressions"):
        assert np.array_equal(getattr(found, of), getattr(expected, of))


def with_bot(made: Arm, impressions: int) -> Arm:
    """An arm and so many failures of one unit."""
    made.busiest.add(Busiest.of(np.repeat(BOT, impressions)))
    of_bot = bucket_indices(np.array([BOT]))[0]
    for column in (0, 1, 4, 7):
        made.tallies[of_bot, column] += impressions
    return made


def test_a_busy_unit_is_named_and_the_difference_without_it_stands_beside() -> None:
    """10 % of an arm without a success turn a true gain into a loss."""
    control = arm((0.5, 0.4, 0.3), 1, range(2_000), 10)
    treatment = arm((0.53, 0.4, 0.3), 2, range(2_000, 4_000), 10)
    [alone] = [v for v in finding({"control": control, "treatment": treatment}).variants[1:]]
    assert alone.metrics[0].verdict == "better" and alone.metrics[0].without_busiest is None
    found = finding({"control": control, "treatment": with_bot(treatment, 2_200)})
    metric = found.variants[1].metrics[0]
    assert metric.difference is not None and metric.difference < 0
    assert metric.without_busiest is not None and metric.without_busiest.verdict == "better"
    [bot] = found.busiest
    assert (bot.variant, bot.unit) == ("treatment", f"{BOT:016x}")
    assert bot.share == pytest.approx(0.0991, abs=1e-4)
    assert found.warnings[0].startswith(
        f"unit {BOT:016x} has 9.9 % of the impressions of treatment"
    )
    assert "  RR@10, without the 64ths of users that the busiest" in report_table(found, None)


def test_few_users_are_not_all_busy() -> None:
    made = arm((0.5, 0.4, 0.3), 1, range(50), 20)
    made.busiest.add(Busiest.of(np.repeat(user_hashes(f"u{n}" for n in range(50)), 20)))
    assert finding({"control": made}).busiest == ()


def test_the_cap_of_a_day_is_one_of_each_lane() -> None:
    """A unit whose impressions lie in two lanes, as the key is not the unit, has it twice."""
    capped, lanes = spec("a", daily_cap=2), list[Tallies]()
    for _ in range(2):
        store = MemoryLane()
        owned = claimed(store, plan=plan_of(capped))
        times_ms = [n * BASE_MS for n in range(4)]
        to = {"a": "control"}
        commit(
            store, owned, *(shown(t, of=f"q{t}", user_id="bot", experiments=to) for t in times_ms)
        )
        commit(store, owned, passing(6 * BASE_MS + 2 * SETTLE_MS))
        lanes.append(owned.lane.experiments.by_name["a"])
    together = merge_tallies(capped, lanes).arms["control"]
    assert (together.impressions, together.beyond_cap) == (4, 4)


def test_impressions_beyond_the_cap_of_a_day_are_left_out_and_counted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Those of panes after the one in which the unit reached it, until the day ends."""
    monkeypatch.setattr(tallies, "DAY_MS", DAY_MS)
    plan = plan_of(spec("a", daily_cap=2))
    store = MemoryLane()
    owned = claimed(store, plan=plan)
    bot = [
        shown(at_ms, of=f"q{at_ms}", user_id="bot", experiments={"a": "control"})
        for at_ms in (*(n * BASE_MS for n in range(4)), DAY_MS)
    ]
    commit(store, owned, *bot[:4])
    commit(store, owned, passing(6 * BASE_MS + 2 * SETTLE_MS))
    owned = claimed(store, "t2", plan=plan)
    commit(store, owned, bot[4], searched(10, DAY_MS + 1))
    commit(store, owned, passing(DAY_MS + 3 * SETTLE_MS))
    made = owned.lane.experiments.by_name["a"].arms["control"]
    assert (made.impressions, made.beyond_cap) == (4, 2)
    back = claimed(store, "t3", plan=plan).lane.experiments.by_name["a"].arms["control"]
    assert back.beyond_cap == 2
    assert (back.busiest.impressions.tolist(), len(back.busiest_today.units)) == ([2], 2)
