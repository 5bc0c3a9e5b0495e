"""`[changes]`: the settings that the processes serve, and the faults of the names in them."""

from dataclasses import fields
from typing import Final

import pytest

from relevanced.daemon.changes import ChangeSettings, ScoreFloor
from relevanced.daemon.config import ChangesSection, Config, ConfigError, load

METRICS: Final = '[metrics]\nnames = ["P@1", "nDCG(gain=exponential)@10"]\n'


def of(text: str) -> Config:
    return load(text, {}, "test")


def faults_of(text: str) -> list[str]:
    with pytest.raises(ConfigError) as caught:
        of(text)
    return caught.value.faults


def test_every_setting_has_its_default_and_a_kind() -> None:
    names = [entry.name for entry in fields(ChangeSettings)]
    assert [entry.name for entry in fields(ChangesSection)] == names
    assert all("kind" in entry.metadata for entry in fields(ChangesSection))
    assert {name: getattr(of("").changes, name) for name in names} == vars(ChangeSettings())


def test_numbers_are_those_that_are_configured() -> None:
    numbers = of("[changes]\ndesign_effect = 2\nlag_records = 50_000").resolved_changes.numbers
    assert (numbers["design_effect"], numbers["lag_records"]) == (2, 50_000)
    assert len(numbers) == len(fields(ChangeSettings)) - len(
        ("time_zone", "metric_drift_ratios", "score_floors")
    )


def test_every_metric_has_a_drift_under_the_name_of_its_series() -> None:
    drifts = '[changes]\ndrift_ratio = 0.01\nmetric_drift_ratios = { "%s" = 0.02 }\n'
    for spelling in ("nDCG@10", "nDCG(gain=exponential)@10"):
        change_settings = of(METRICS + drifts % spelling).resolved_changes
        assert change_settings.metric_drift_ratios == {"P@1": 0.01, "nDCG@10": 0.02}
        assert (change_settings.drift_of("P@1"), change_settings.drift_of("nDCG@10")) == (
            0.01,
            0.02,
        )


def test_floors_are_those_of_metrics_that_are_computed() -> None:
    assert of(METRICS).resolved_changes.score_floors == ()
    assert of("").resolved_changes.score_floors == ChangeSettings.score_floors
    floors = 'score_floors = [{ metric = "nDCG(gain=exponential)@10", floor = 0.3 }]'
    found = of(f"{METRICS}[changes]\n{floors}").resolved_changes.score_floors
    assert found == (ScoreFloor("nDCG@10", "all", "all", 0.3),)


def test_floors_of_segments_are_read_from_a_variable_too() -> None:
    text = '[{"metric": "P@1", "grouping": "country,device", "segment": "DE,ios", "floor": 0.2}]'
    config = load("", {"RELEVANCED_CHANGES__SCORE_FLOORS": text}, "test")
    assert config.changes.score_floors == (ScoreFloor("P@1", "country,device", "DE,ios", 0.2),)


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("design_effect = 0.5", "changes.design_effect=0.5: must be a number between 1 and 1000"),
        ("smallest_sample = 1", "changes.smallest_sample=1: must be a whole number between 2 and"),
        ("drift_ratio = 0", "changes.drift_ratio=0: must be a number > 0 and < 1"),
        (
            "lag_record = 5",
            "changes.lag_record: unknown key: did you mean changes.lag_records?",
        ),
        (
            'metric_drift_ratios = { "P@2" = 0.01 }',
            "changes.metric_drift_ratios=P@2: must be one of metrics.names",
        ),
        (
            'score_floors = [{ metric = "P@2", floor = 0.1 }]',
            "metric must be one of metrics.names",
        ),
        (
            'score_floors = [{ metric = "P@1", grouping = "city", segment = "x", floor = 0.1 }]',
            "grouping must be all or one of segments.groupings",
        ),
        (
            'score_floors = [{ metric = "P@1", grouping = "country", floor = 0.1 }]',
            "needs both grouping and segment, or neither",
        ),
        (
            'score_floors = [{ metric = "P@1", floor = 0.1 }, { metric = "P@1", floor = 0.2 }]',
            "is there twice",
        ),
        ('score_floors = [{ metric = "P@1" }]', "must be a table with the keys metric, grouping"),
        ('score_floors = [{ metric = "P@1", floor = "x" }]', "floor must be a number"),
        ('score_floors = { "P@1" = 1 }', "must be a list of tables {metric, grouping, segment"),
    ],
)
def test_each_fault_says_what_is_allowed(text: str, fault: str) -> None:
    found = faults_of(f"[changes]\n{text}")
    assert any(fault in reported for reported in found), found


def test_the_former_name_of_the_section_gets_the_name_of_today() -> None:
    assert faults_of("[judging]\nlate_seconds = 60") == [
        "judging: unknown key: did you mean changes?"
    ]
