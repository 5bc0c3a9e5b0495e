"""The rules of a release: those that are shipped, for its own series, with its own thresholds."""

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from relevanced.daemon.changes import ChangeSettings
from tests.deploy.chart import DEPLOY, FULL, of_kind, rendered
from tests.deploy.expressions import selectors
from tests.deploy.go_templates import TemplateError
from tests.services.prometheus_server import required, run

RULES_ON: dict[str, Any] = {"prometheusRule": {"enabled": True}}
MORE_LAG = {"lag_records": 50_000.0}


def served(setting: str, value: float, job: str = "shop") -> dict[str, str]:
    """A setting as a process of a release serves it."""
    labels = f'namespace="quality",job="{job}",instance="1",setting="{setting}"'
    return {"series": f"relevanced_setting{{{labels}}}", "values": f"{value!r}x40"}


def shipped() -> list[dict[str, Any]]:
    files = sorted((DEPLOY / "prometheus/rules").glob("*.yml"))
    return [group for path in files for group in yaml.safe_load(path.read_text())["groups"]]


def rules_of(groups: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [rule for group in groups for rule in group["rules"]]


def chart_rules(changes: dict[str, Any], release: str = "search") -> list[dict[str, Any]]:
    (rule,) = of_kind("PrometheusRule", rendered(changes, release))
    return rules_of(rule["spec"]["groups"])


def without_scope(value: str) -> str:
    return re.sub(r"\{namespace='[^']*',job='[^']*'(,?)", r"{", value).replace("{}", "")


def test_chart_contains_all_rules() -> None:
    (rule,) = of_kind("PrometheusRule", rendered(RULES_ON))
    groups = rule["spec"]["groups"]
    assert [(g["name"], g.get("interval")) for g in groups] == [
        (g["name"], g.get("interval")) for g in shipped()
    ]
    for ours, theirs in zip(rules_of(groups), rules_of(shipped()), strict=True):
        labels = {**theirs.get("labels", {}), "namespace": "quality", "job": "search"}
        texts = {k: without_scope(v) for k, v in ours.get("annotations", {}).items()}
        assert {**ours, "expr": without_scope(ours["expr"]), "annotations": texts} == {
            **theirs,
            "labels": labels,
            "annotations": theirs.get("annotations", {}),
        }


def test_rules_select_their_own_release_only() -> None:
    for rule in chart_rules(RULES_ON):
        for selector in selectors(rule["expr"].replace("'", '"')):
            if selector.name != "up":  # its targets are matched with those of the release
                assert ("job", "=", "search") in selector.matchers, rule["expr"]
                assert ("namespace", "=", "quality") in selector.matchers, rule["expr"]


@required("promtool")
def test_two_releases_have_their_own_thresholds(tmp_path: Path) -> None:
    """Both in one namespace and one Prometheus: search tolerates a lag of 50,000, shop does not.

    The settings are those of the configuration: the rules of both releases are the same."""
    for release in ("search", "shop"):
        (rule,) = of_kind("PrometheusRule", rendered(RULES_ON, release))
        groups = [{**g, "name": f"{release}_{g['name']}"} for g in rule["spec"]["groups"]]
        (tmp_path / f"{release}.yml").write_text(yaml.safe_dump({"groups": groups}))
    lag = (
        'relevanced_lag_records{namespace="quality",job="%s",instance="1",topic="t",partition="0"}'
    )
    texts = {
        "summary": "20000 records of topic t are unread",
        "description": "The lag of topic t is 20000 records and has been too high for 15 minutes. "
        "Current rate over all topics: 0 events a second.",
        "runbook_url": "runbook.md#relevancedlagging",
    }
    labels = {"kind": "pipeline", "severity": "ticket", "namespace": "quality", "job": "shop"}
    alert = {"exp_labels": {**labels, "topic": "t"}, "exp_annotations": texts}
    test = {
        "interval": "1m",
        "input_series": [
            *({"series": lag % name, "values": "20000x40"} for name in ("search", "shop")),
            *(served(name, value) for name, value in ChangeSettings().numbers.items()),
            *(served(n, v, "search") for n, v in (ChangeSettings().numbers | MORE_LAG).items()),
        ],
        "alert_rule_test": [
            {"eval_time": "30m", "alertname": "RelevancedLagging", "exp_alerts": [alert]},
            {"eval_time": "30m", "alertname": "RelevancedSettingsMissing", "exp_alerts": []},
        ],
    }
    path = tmp_path / "two.yml"
    path.write_text(yaml.safe_dump({"rule_files": ["search.yml", "shop.yml"], "tests": [test]}))
    assert "SUCCESS" in run("promtool", ["test", "rules", path])


@required("promtool")
def test_changed_rules_are_valid(tmp_path: Path) -> None:
    (rule,) = of_kind("PrometheusRule", rendered(FULL))
    path = tmp_path / "rules.yml"
    path.write_text(yaml.safe_dump(rule["spec"]))
    assert "SUCCESS" in run("promtool", ["check", "rules", "--lint=all", "--lint-fatal", path])


def test_values_change_the_rules() -> None:
    rules = chart_rules(FULL)
    alerts = {r["alert"]: r for r in rules if "alert" in r}
    every = {r["alert"] for r in rules_of(shipped()) if "alert" in r}
    assert every - alerts.keys() == {"RelevancedSegmentSilent"}
    for name, alert in alerts.items():
        assert alert["labels"]["team"] == "search"
        url = alert["annotations"]["runbook_url"]
        assert url == f"https://example.com/runbook#{name.lower()}"


def test_unknown_alerts_are_refused() -> None:
    with pytest.raises(TemplateError, match="RelevancedLagged: must be one of Relevanced"):
        rendered({"prometheusRule": {"enabled": True, "disabled": ["RelevancedLagged"]}})
