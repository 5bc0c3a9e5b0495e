"""The alerts on scores over simulated weeks, in a real Prometheus: few false, none missed.

The full run is `make bench-alerts`; this one is small, its seed fixed, its limits wide.
"""

import re
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import pytest

from tests.deploy.alert_power import LIKELIER, Z_OF_ANY, chance_of_a_tenth
from tests.deploy.alert_proof import (
    START_S,
    Bench,
    Series,
    alerts,
    fired,
    first_firing_hours,
    held,
    kept,
    load,
    needed_rules,
)
from tests.deploy.alert_screen import LEAD_HOURS, episodes_of_days, judged, suspicious_days
from tests.deploy.alert_traffic import PANE_S, Floats, Traffic, simulate
from tests.services.prometheus_server import required

pytestmark = required("prometheus", "promtool")

TRAFFIC = Traffic(1_000, night=1.0)
SEED = 20261121
Z_COMPARED = re.compile(r"relevanced:score:z(?:{[^}]*})? < (-[\d.]+)")


def test_screen_and_rules_agree_on_what_is_judged(tmp_path: Path) -> None:
    shown = simulate(Traffic(1_000), 2, 8, np.random.default_rng(SEED), drop=0.05, drop_at_hour=4)
    bench = Bench(tmp_path / "bench", shown["1h"].score.shape[1])
    try:
        bench.feed(shown)
        bench.record(needed_rules(alerts()))
        recorded = bench.answers("relevanced:score:z")
        likelier = bench.answers("relevanced:score:tenth_lost:log_likelihood_ratio")
    finally:
        bench.close()
    expected = judged(shown, load("settings.yml"))
    assert {series.metric["window"] for series in recorded} == expected.z.keys()
    assert [series.metric["window"] for series in likelier] == ["3h", "3h"]
    agree(recorded, expected.z)
    agree(likelier, {"3h": expected.log_likelihood_ratio})


def agree(recorded: Sequence[Series], expected: Mapping[str, Floats]) -> None:
    for series in recorded:
        row = expected[series.metric["window"]][int(series.metric["segment"])]
        places = [int(time_s - START_S) // PANE_S for time_s, _ in series.values]
        assert places == np.flatnonzero(~np.isnan(row)).tolist()
        np.testing.assert_allclose([float(v) for _, v in series.values], row[places], atol=1e-6)


def test_screen_and_power_have_the_thresholds_of_the_rules() -> None:
    shipped = " ".join(alert.expression for alert in alerts())
    assert set(Z_COMPARED.findall(shipped)) == {"-4", "-3", "-1.5", f"-{Z_OF_ANY}", "-3.7", "-5"}
    assert re.findall(r"log_likelihood_ratio > ([\d.]+)", shipped) == [str(LIKELIER)]


def test_by_night_a_tenth_is_found_less_often_and_arithmetic_says_so() -> None:
    by_hour = [chance_of_a_tenth(Traffic(1_000), hour) for hour in range(24)]
    assert min(by_hour, key=lambda one: one.chance).impressions < 1_400
    assert 0.7 < min(one.chance for one in by_hour) < max(one.chance for one in by_hour) < 1
    assert chance_of_a_tenth(TRAFFIC, 0).chance > 0.98


def test_drop_of_a_tenth_is_found_within_hours(tmp_path: Path) -> None:
    rng = np.random.default_rng(SEED)
    shown = simulate(TRAFFIC, 20, 14, rng, drop=0.1, drop_at_hour=6)
    hours = first_firing_hours(fired(tmp_path / "bench", shown)["RelevancedScoreDropped"], 6)
    assert np.mean(hours <= 4) >= 0.9 and hours.max() <= 8


def test_quiet_weeks_raise_no_alarm(tmp_path: Path) -> None:
    """400 series-weeks: at 2 false alarms per 1,000 more than 4 come once in 700 runs."""
    shown = simulate(TRAFFIC, 200, 14 * 24 + LEAD_HOURS, np.random.default_rng(SEED))
    found = fired(tmp_path / "bench", suspicious_days(shown, load("settings.yml")))
    assert sum(episodes_of_days(firing) for firing in found.values()) <= 4


@pytest.mark.parametrize(
    ("pending", "firing", "kept_on"),
    [("..11.", ".....", "....."), (".1111", "....1", "....1"), ("111.1..", "..1....", "..111..")],
)
def test_for_and_keep_firing_for(pending: str, firing: str, kept_on: str) -> None:
    steps = 3 if pending == ".1111" else 2
    fires = held(np.array([[c == "1" for c in pending]]), steps)
    for found, expected in ((fires, firing), (kept(fires, 2), kept_on)):
        assert "".join(".1"[int(value)] for value in found[0]) == expected
