"""The rules are well formed, have tests and documentation, and query only series that exist."""

import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

from deploy.prometheus.runbook import RUNBOOK, with_patterns
from relevanced.daemon.changes import NAMES as PATTERN_NAMES, ChangeSettings
from relevanced.daemon.events import SKIP_REASONS
from relevanced.daemon.telemetry import FAMILIES
from tests.services.prometheus_server import required, run

pytestmark = required("promtool")

ROOT: Final = Path(__file__).parent.parent.parent
DEPLOY: Final = ROOT / "deploy"
RULES: Final = sorted((DEPLOY / "prometheus" / "rules").glob("*.yml"))
CASES: Final = sorted((Path(__file__).parent / "rules").glob("*.yml"))
DEFAULT_SETTINGS: Final = Path(__file__).parent / "default_settings.yml"
PARTS: Final = ("**What it means.**", "**How to check.**", "**What to do.**")
ALWAYS_FIRES: Final = "RelevancedWatchdog"
ABOUT_PROMETHEUS: Final = ("RelevancedWatchdog",)
"""Alerts on Prometheus and its rules: not on one installation."""
HOLDING_BACK: Final = ("RelevancedNoData", "RelevancedFeedbackStopped")
WITHOUT_FEEDBACK: Final = ("RelevancedJudgedScoreDropped",)
"""Alerts on scores that no missing click moves."""

OF_THE_EXPORTER: Final = {
    *("smallest_drop_ratio", "smallest_drop", "far_below_ratio"),
    *("drift_ratio", "weekday_drift_ratio", "share_drift_ratio", "design_effect"),
    *("feedback_share_drop_ratio", "zero_results_rise_ratio"),
}
"""Settings by which the exporter judges scores: no rule compares with them."""
ADDED_BY_PROMETHEUS: Final = (
    *("cluster", "job", "instance", "namespace", "pod"),
    *("alertname", "alertstate", "severity"),
)
ADDED_BY_RULES: Final = ("setting",)

_SERIES: Final = re.compile(r"\b(relevanced_[a-z0-9_]+)\s*(?:\{([^}]*)\})?")
_RECORDED: Final = re.compile(r"\brelevanced:[a-z0-9_:]+")
_GROUPED: Final = re.compile(r"\b(?:by|on|without|ignoring|group_left) \(([^)]*)\)")
_MATCHED: Final = re.compile(r"(\w+)\s*(?:=~|!~|!=|=)")
_SETTING: Final = re.compile(r'relevanced:setting\{[^}]*setting=\\?"(\w+)\\?"')
_PROMQL: Final = re.compile(r"```promql\n(.*?)```", re.DOTALL)


def rules() -> list[dict[str, Any]]:
    documents = [yaml.safe_load(path.read_text()) for path in RULES]
    return [
        rule for document in documents for group in document["groups"] for rule in group["rules"]
    ]


def alerts() -> list[dict[str, Any]]:
    return [rule for rule in rules() if "alert" in rule]


def runbook() -> str:
    return RUNBOOK.read_text()


def sections() -> dict[str, str]:
    """Anchor → text of every section of the runbook."""
    parts = re.split(r"^#+ (.+)$", runbook(), flags=re.MULTILINE)
    return {
        heading.lower().replace(" ", "-"): text
        for heading, text in zip(parts[1::2], parts[2::2], strict=True)
    }


def queries() -> list[str]:
    """All queries: expressions of the rules, queries in annotations, examples of the runbook."""
    texts = [text for rule in alerts() for text in rule["annotations"].values()]
    return [rule["expr"] for rule in rules()] + texts + _PROMQL.findall(runbook())


def labels_by_series() -> dict[str, tuple[str, ...]]:
    """Series → its labels. A histogram has three kinds of series."""
    labels = {name: family.labels for name, family in FAMILIES.items()}
    for name, family in FAMILIES.items():
        if family.kind == "histogram":
            labels |= {f"{name}_{part}": family.labels for part in ("sum", "count")}
            labels[f"{name}_bucket"] = (*family.labels, "le")
    return labels


def unknown_series(texts: Iterable[str]) -> Iterator[str]:
    """The series and labels in queries that the program does not serve."""
    series = labels_by_series()
    anywhere = {*ADDED_BY_PROMETHEUS, *ADDED_BY_RULES, *(x for xs in series.values() for x in xs)}
    for text in texts:
        named = {x for part in _GROUPED.findall(text) for x in re.findall(r"\w+", part)}
        yield from sorted(named - anywhere)
        for name, matchers in _SERIES.findall(text):
            if name not in series:
                yield name
                continue
            labels = {*series[name], *ADDED_BY_PROMETHEUS}
            yield from (f"{name}{{{x}}}" for x in _MATCHED.findall(matchers) if x not in labels)


def unit_tests() -> list[dict[str, Any]]:
    groups = [group for path in CASES for group in yaml.safe_load(path.read_text())["tests"]]
    return [case for group in groups for case in group.get("alert_rule_test", [])]


def test_linter_finds_no_problem() -> None:
    output = run("promtool", ["check", "rules", "--lint=all", "--lint-fatal", *RULES])
    assert output.count("SUCCESS") == len(RULES)


def test_texts_list_series_in_an_order_of_their_own() -> None:
    """Prometheus gives those of an aggregation in any order."""
    queries = re.findall(
        r'range [^"]*query \(printf\s+"([\w:]+)', "\n".join(map(Path.read_text, RULES))
    )
    assert len(queries) > 4
    assert {*queries} <= {"sort", "sort_desc", "topk", "relevanced:links_info"}


@pytest.mark.parametrize("path", CASES, ids=lambda path: path.stem)
def test_rules_pass_their_unit_tests(path: Path) -> None:
    assert "SUCCESS" in run("promtool", ["test", "rules", path])


def test_every_alert_has_a_case_that_fires_and_one_that_does_not() -> None:
    fires = {case["alertname"] for case in unit_tests() if case["exp_alerts"]}
    does_not = {case["alertname"] for case in unit_tests() if not case["exp_alerts"]}
    names = {alert["alert"] for alert in alerts()}
    assert names == fires
    assert names - {ALWAYS_FIRES} == does_not


@pytest.mark.parametrize("path", CASES, ids=lambda path: path.stem)
def test_case_states_the_order_of_its_groups(path: Path) -> None:
    """Without it promtool evaluates groups in any order, and results differ by a minute."""
    cases = yaml.safe_load(path.read_text())
    read = [yaml.safe_load((path.parent / name).read_text()) for name in cases["rule_files"]]
    groups = [group["name"] for document in read for group in document["groups"]]
    assert sorted(cases.get("group_eval_order", groups)) == sorted(groups)


def test_every_series_exists() -> None:
    assert not list(unknown_series(queries()))


@pytest.mark.parametrize(
    "text",
    [
        "relevanced_skore",
        'relevanced_impressions{metric="P@5"}',
        "sum by (contry) (relevanced_score)",
    ],
)
def test_unknown_series_or_label_is_found(text: str) -> None:
    assert list(unknown_series([text]))


def test_every_recorded_name_is_recorded() -> None:
    used = {name for text in queries() for name in _RECORDED.findall(text)}
    assert used <= {rule["record"] for rule in rules() if "record" in rule}


def test_runbook_queries_parse(tmp_path: Path) -> None:
    found = _PROMQL.findall(runbook())
    group = {
        "name": "runbook",
        "rules": [{"record": f"q{n}", "expr": q} for n, q in enumerate(found)],
    }
    path = tmp_path / "queries.yml"
    path.write_text(yaml.safe_dump({"groups": [group]}))
    assert f"{len(found)} rules found" in run("promtool", ["check", "rules", path])


@pytest.mark.parametrize("alert", alerts(), ids=lambda alert: str(alert["alert"]))
def test_alert_is_labelled_and_documented(alert: dict[str, Any]) -> None:
    assert alert["labels"].keys() == {"kind", "severity"}
    assert alert["annotations"].keys() == {"summary", "description", "runbook_url"}
    anchor = alert["alert"].lower()
    link = alert["annotations"]["runbook_url"]
    assert link.endswith(f"{{{{ else }}}}runbook.md{{{{ end }}}}#{anchor}")
    assert "relevanced:links_info{" in link
    offsets = [sections()[anchor].find(part) for part in PARTS]
    assert offsets == sorted(offsets) and offsets[0] >= 0


def test_runbook_has_no_section_for_a_removed_alert() -> None:
    documented = {heading for heading in sections() if heading.startswith("relevanced")}
    assert documented == {alert["alert"].lower() for alert in alerts()}


def test_settings_missing_expects_the_number_of_settings() -> None:
    (missing,) = (rule for rule in alerts() if rule["alert"] == "RelevancedSettingsMissing")
    count = str(len(ChangeSettings().numbers))
    assert re.findall(r"< (\d+)", missing["expr"]) == [count]
    assert f"expect {count}." in missing["annotations"]["description"]


def test_rules_compare_with_settings_that_are_served() -> None:
    named = {name for text in queries() for name in _SETTING.findall(text)}
    assert named <= ChangeSettings().numbers.keys()
    assert ChangeSettings().numbers.keys() - named == OF_THE_EXPORTER


def test_no_rule_takes_a_setting_of_any_installation() -> None:
    assert not [text for text in queries() if "scalar(relevanced" in text]


def test_cases_have_the_default_settings() -> None:
    found: dict[str, float] = {}
    others: dict[str, float] = {}
    (group,) = yaml.safe_load(DEFAULT_SETTINGS.read_text())["groups"]
    for rule in group["rules"]:
        if rule["record"] == "installation":
            continue
        value = float(rule["expr"].rpartition(" * ")[2])
        name = rule.get("labels", {}).get("setting")
        (others if name is None else found)[name or rule["record"]] = value
    defaults = ChangeSettings()
    assert found == defaults.numbers
    assert others == {"relevanced_drift_ratio": defaults.drift_ratio}


def test_no_rule_mixes_installations() -> None:
    """What aggregates or matches by the installation names all three of its labels."""
    lists = [found for text in queries() for found in re.findall(r"\((?:[\w]+, )*[\w]+\)", text)]
    of_installations = [x for x in lists if "namespace" in x or "(job" in x or "job," in x]
    assert of_installations
    assert all(x.startswith("(cluster, namespace, job") for x in of_installations)


@pytest.mark.parametrize("alert", alerts(), ids=lambda alert: str(alert["alert"]))
def test_alert_names_its_installation(alert: dict[str, Any]) -> None:
    """No alert aggregates the labels of its installation away."""
    if alert["alert"] in ABOUT_PROMETHEUS:
        return
    kept = re.findall(r"\b(by|without) \(([^)]*)\)", alert["expr"])
    for word, inside in kept:
        labels = re.findall(r"\w+", inside)
        assert ("job" in labels) == (word == "by"), alert["expr"]


@pytest.mark.parametrize("alert", alerts(), ids=lambda alert: str(alert["alert"]))
def test_what_an_alert_asks_for_is_of_its_installation(alert: dict[str, Any]) -> None:
    for text in alert["annotations"].values():
        for name, matchers in re.findall(r"(relevanced[_:][\w:]+)\{([^}]*)\}", text):
            if alert["alert"] in ABOUT_PROMETHEUS and name == "relevanced:links_info":
                continue  # any installation's: all have the same runbook
            if matchers.startswith("%s"):
                continue  # `%s` is `$of`, which is checked where it is made
            assert {"cluster", "job", "namespace"} <= set(_MATCHED.findall(matchers)), text
        for made in re.findall(r'printf "\{?((?:\w+=%q,?)+)', text):
            assert {"cluster", "job", "namespace"} <= set(_MATCHED.findall(made)), text


@pytest.mark.parametrize("alert", alerts(), ids=lambda alert: str(alert["alert"]))
def test_alert_on_quality_is_held_back_by_its_own_expression(alert: dict[str, Any]) -> None:
    if alert["labels"]["kind"] != "quality":
        return
    independent = (*HOLDING_BACK, *WITHOUT_FEEDBACK)
    by = "pipeline_fault" if alert["alert"] in independent else "scores_unusable"
    assert alert["expr"].endswith(f"unless on (cluster, namespace, job) relevanced:{by}")


def test_the_runbook_is_made_of_the_table() -> None:
    assert with_patterns(runbook()) == runbook()


def test_every_pattern_that_a_text_names_is_in_the_table() -> None:
    texts = [text for alert in alerts() for text in alert["annotations"].values()]
    named = {name for text in [*texts, runbook()] for name in re.findall(r"\b[A-Z]{3,}\b", text)}
    words = {word for name in PATTERN_NAMES for word in re.findall(r"[A-Z]{3,}", name)}
    assert "ORDER" not in named
    assert words <= {word for word in named if word in runbook()}
    said = {found for text in texts for found in re.findall(r"[Ll]ooks like ([A-Z]+)", text)}
    assert said <= words


def test_no_rule_counts_what_is_only_skipped() -> None:
    """Nothing is wrong with such records: one list of reasons, for the counter and the rules."""
    skips = "|".join(SKIP_REASONS)
    for text in (*queries(), *(str(one) for one in alerts())):
        for selector in re.findall(r"relevanced_rejected_events_total\{([^}]*)\}", text):
            assert skips in selector or 'reason="stalls"' in selector, text
