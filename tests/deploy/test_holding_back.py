"""One fault, one alert: simulated faults, the shipped rules, and what fires in promtool."""

from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

from tests.deploy.fault_scenes import Fired, Scene, emptied, fired, shuffled
from tests.deploy.test_rules import RULES
from tests.services.prometheus_server import required

pytestmark = required("promtool")

USED: Final = ("settings", "changes", "patterns", "holding_back", "quality", "traffic")
SEED: Final = 20261123
FEW: Final = ("Success@10", "RR@10")
RANKING_OF_DE: Final = shuffled(lambda country, device, arm: float(country == "DE"))
INDEX_OF_FR: Final = emptied(lambda country, device, arm: float(country == "FR"), 0.3)
CELL: Final = shuffled(lambda country, device, arm: float((country, device) == ("DE", "desktop")))
INDEX_OF_IOS: Final = emptied(lambda country, device, arm: float(device == "ios"), 0.35)
INDEX: Final = emptied(lambda country, device, arm: 1.0, 0.15)


def rules(directory: Path, *, but: str = "") -> list[Path]:
    """The rules of these files without their texts, which promtool would make for every alert."""
    paths = {path.stem: path for path in RULES}
    copies = []
    for name in USED:
        if name == but:
            continue
        document: dict[str, Any] = yaml.safe_load(paths[name].read_text())
        for group in document["groups"]:
            for rule in group["rules"]:
                rule.pop("annotations", None)
        copies.append(directory / f"{name}.yml")
        copies[-1].write_text(yaml.safe_dump(document))
    return copies


def told(looks: list[tuple[int, Fired]]) -> dict[str, int]:
    """Segment → how many alerts on it fired at some time."""
    alerts = {alert for _, alert in looks}
    segments = sorted(alert.segment for alert in alerts)
    return {segment: segments.count(segment) for segment in segments}


@pytest.mark.parametrize(
    ("scene", "expected"),
    [
        pytest.param(Scene(3_000), {}, id="nothing is broken"),
        # The segment is called first; the whole, once it is low enough, pages in its place.
        pytest.param(Scene(3_000, (RANKING_OF_DE,)), {"all": 1, "country DE": 1}, id="one country"),
        pytest.param(
            Scene(3_000, (RANKING_OF_DE, INDEX_OF_FR)),
            {"all": 1, "country DE": 1, "country FR": 1},
            id="two faults in two countries",
        ),
        pytest.param(
            Scene(3_000, (RANKING_OF_DE, INDEX_OF_IOS)),
            {"all": 1, "country DE": 1, "device ios": 1},
            id="two faults across groupings",
        ),
        pytest.param(
            Scene(3_000, (CELL,)),
            {"all": 1, "country,device DE,desktop": 1},
            id="one country on one device",
        ),
    ],
)
def test_one_fault_is_one_alert(scene: Scene, expected: dict[str, int], tmp_path: Path) -> None:
    found = fired({"j": replace(scene, metrics=FEW)}, rules(tmp_path), tmp_path, SEED, hours=2)
    assert told(found["j"]) == expected, found["j"]


def test_a_fault_in_eight_metrics_raised_dozens_of_alerts_without_these_rules(
    tmp_path: Path,
) -> None:
    scene = {"j": Scene(3_000, (RANKING_OF_DE,))}
    held = fired(scene, rules(tmp_path), tmp_path, SEED, hours=2)["j"]
    last = {alert for minute, alert in held if minute == max(look for look, _ in held)}
    assert [alert.segment for alert in last] == ["all"] and {a.severity for a in last} == {"page"}
    free = fired(scene, rules(tmp_path, but="holding_back"), tmp_path, SEED, hours=2)["j"]
    # While the hour fills, a part of the country may be called before the country, and that before
    # the whole; each holds back the one before.
    assert sum(told(held).values()) <= 3 and sum(told(free).values()) > 24
    assert max(max(told([x for x in held if x[0] == at]).values()) for at, _ in held) == 1
