"""What the exporter serves while a new file of judgements comes into force, and what the shipped
rules say of it: nothing, until something falls by the new file too."""

from collections.abc import Mapping
from pathlib import Path
from typing import Final

import numpy as np
import pytest

from relevanced.daemon.changes import ChangeSettings
from relevanced.daemon.panes import HOUR_MS
from relevanced.daemon.views import LaneFiles
from relevanced.metrics import Floats
from tests.deploy.fault_scenes import fired_by
from tests.deploy.test_judged_outage import rules_without_texts
from tests.judged_lanes import NOON, JudgedHour, entry, exposed_judged, lane, scored, steady
from tests.lane_views import read_text
from tests.services.prometheus_server import required

pytestmark = required("promtool")

HOURS: Final = 9
STEP_MS: Final = 300_000
OLD: Final = entry(NOON - 60 * 24 * HOUR_MS)
NEW: Final = entry(NOON + HOUR_MS, "b")
FALLS_MS: Final = NOON + 6 * HOUR_MS


def at(until_ms: int, files: LaneFiles, falls: bool) -> dict[str, float]:
    """Series of the whole → value. The new file is more severe: it gives 0.5 in the place of
    0.8."""
    score = {True: 0.4, False: 0.5}
    hours = {start: JudgedHour(3600) for start in steady(24 * 23, until_ms=NEW.start_ms)}
    for start in range(NEW.start_ms, until_ms, HOUR_MS):
        hours[start] = JudgedHour(3600, score[falls and start >= FALLS_MS])
    families = read_text(
        b"".join(exposed_judged(scored(lane(hours, files, until_ms=until_ms))).text)
    )
    return {
        f"{sample.name}{{" + ",".join(f'{k}="{v}"' for k, v in sample.labels.items()): sample.value
        for family in families
        for sample in family.samples
        if sample.labels.get("segment", "all") == "all" and "window" in sample.labels
    }


def series(looks: list[Mapping[str, float]]) -> list[tuple[str, Floats]]:
    names = sorted({name for look in looks for name in look})
    found = [(name, np.array([look.get(name, np.nan) for look in looks])) for name in names]
    settings = ChangeSettings().numbers.items()
    return found + [
        (f'relevanced_setting{{setting="{name}"', np.array([value])) for name, value in settings
    ]


@pytest.mark.parametrize("falls", [False, True])
def test_a_new_file_raises_no_alert_and_a_fall_by_it_does(falls: bool, tmp_path: Path) -> None:
    files = LaneFiles(0, (OLD, NEW))
    steps = range(NOON, NOON + HOURS * HOUR_MS, STEP_MS)
    served = series([at(step, files, falls) for step in steps])
    looks = fired_by({"j": served}, rules_without_texts(tmp_path), tmp_path, HOURS)["j"]
    fired = {(minute, alert.alert) for minute, alert in looks}
    if not falls:
        assert not fired
        return
    first = min(minute for minute, _ in fired)
    assert {alert for _, alert in fired} == {"JudgedScoreDropped"}
    assert 0 < first - (FALLS_MS - NOON) // 60_000 <= 60, sorted(fired)


def test_without_the_rule_of_one_file_the_new_one_would_have_raised_it(tmp_path: Path) -> None:
    """The same scores under one name: so it is the rule that keeps the alert from firing."""
    steps = range(NOON, NOON + 4 * HOUR_MS, STEP_MS)
    served = series([at(step, LaneFiles(0, (OLD,)), False) for step in steps])
    looks = fired_by({"j": served}, rules_without_texts(tmp_path), tmp_path, 4)["j"]
    assert {alert.alert for _, alert in looks} == {"JudgedScoreDropped"}
