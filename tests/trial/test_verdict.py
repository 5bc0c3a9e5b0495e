"""The judge of a trial: what is missing, late, superfluous, doubled or misworded is said."""

import re
from pathlib import Path
from typing import Final

import pytest
import yaml

from tests.trial.expected import EXPECTED, Alert, Expected
from tests.trial.monitoring import DEPLOY
from tests.trial.scenarios import SCENARIOS
from tests.trial.sighting import Log, Sighting, Step
from tests.trial.verdict import faults

BROKEN_S: Final = 1000.0
EXPECT: Final = Expected(
    10, (Alert("RelevancedDown", 3, "pages", {"job": "shop"}, ("last scraped",)),), stays=".*"
)


def seen(
    name: str = "RelevancedDown",
    after_s: float = 60,
    step: Step = Step.FIRING,
    text: str = "It was last scraped at noon.",
    **labels: str,
) -> Sighting:
    named = {"alertname": name, "severity": "page", "job": "shop", **labels}
    return Sighting(BROKEN_S + after_s, step, named, text)


def judged(*sightings: Sighting) -> str:
    return "\n".join(faults(sightings, EXPECT, BROKEN_S))


def test_the_right_alert_in_time_is_no_fault() -> None:
    assert judged(seen(), seen(step=Step.NOTIFIED)) == ""


@pytest.mark.parametrize(
    ("sightings", "fault"),
    [
        ([], "missing: RelevancedDown"),
        ([seen(step=Step.PENDING)], "missing: RelevancedDown"),
        ([seen(severity="ticket")], "missing: RelevancedDown"),
        ([seen(job="other")], "missing: RelevancedDown"),
        ([seen(after_s=200)], "late: RelevancedDown after 3.3 minutes, not 3"),
        ([seen(text="Gone.")], "does not say 'last scraped'"),
        ([seen(text="last scraped at <no value>")], "malformed text"),
        ([seen(), seen("RelevancedProcessDown")], "unexpected: .* RelevancedProcessDown"),
        ([seen("RelevancedPipelineLate", after_s=-60), seen()], "unexpected: -1.0 min"),
        ([seen(), seen(topic="a"), seen(topic="b")], "3 alerts, at most 1 are right"),
        (
            [seen(grouping="country", segment="DE", metric=metric) for metric in ("RR@10", "P@5")],
            "2 alerts on country DE: RelevancedDown RR@10, RelevancedDown P@5",
        ),
        ([seen(), seen(after_s=90, step=Step.WITHDRAWN)], "withdrawn: .1.5 min"),
        ([seen(), *[seen(step=Step.NOTIFIED)] * 2], "RelevancedDown is notified 2 times"),
    ],
)
def test_what_is_wrong_is_said(sightings: list[Sighting], fault: str) -> None:
    assert re.search(fault, judged(*sightings))


def test_what_is_held_back_reaches_nobody() -> None:
    late = seen("RelevancedPipelineLate")
    assert judged(seen(), late, seen(late.name, step=Step.HELD_BACK)) == ""
    notified = seen(late.name, step=Step.NOTIFIED)
    assert "unexpected" in judged(seen(), late, notified, seen(late.name, step=Step.HELD_BACK))


def test_a_log_has_each_step_of_an_alert_once_and_again_after_it_resolved() -> None:
    log, labels = Log(), {"alertname": "RelevancedDown"}
    for step in (Step.PENDING, Step.FIRING, Step.FIRING, Step.RESOLVED, Step.FIRING):
        log.add(step, labels)
    assert [each.step for each in log.sightings] == [
        Step.PENDING,
        Step.FIRING,
        Step.RESOLVED,
        Step.FIRING,
    ]


def test_each_scenario_has_an_expectation() -> None:
    assert SCENARIOS.keys() == EXPECTED.keys()


def test_expected_alerts_are_among_the_rules() -> None:
    rules = [yaml.safe_load(Path(path).read_text()) for path in (DEPLOY / "rules").glob("*.yml")]
    names = [
        rule["alert"]
        for file in rules
        for group in file["groups"]
        for rule in group["rules"]
        if "alert" in rule
    ]
    for scenario, expected in EXPECTED.items():
        for alert in expected.alerts:
            assert any(re.fullmatch(alert.name, name) for name in names), (scenario, alert.name)
