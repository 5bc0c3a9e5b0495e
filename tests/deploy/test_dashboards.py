"""Dashboards are built by deploy/grafana, follow the rules, and query only series that exist."""

import copy
import json
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml

from deploy import release
from deploy.grafana import promql, states
from tests.deploy.dashboard_rules import Json, faults, panels
from tests.deploy.expressions import Selector, aggregated_labels, selectors
from tests.services.prometheus_server import required, run

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "deploy/grafana/dashboards"
DASHBOARDS = {path.stem: json.loads(path.read_text()) for path in sorted(FOLDER.glob("*.json"))}
UIDS = {dashboard["uid"] for dashboard in DASHBOARDS.values()}
PLANTED: dict[str, tuple[Callable[[Json], object], str]] = {
    "editable": (lambda d: d.update(editable=True), "must not be editable"),
    "unit": (lambda d: panels(d)[0]["fieldConfig"]["defaults"].pop("unit"), "has no unit"),
    "title": (lambda d: panels(d)[0].update(title=panels(d)[1]["title"]), "more than once"),
    "description": (lambda d: panels(d)[0].pop("description"), "needs a title"),
    "source": (lambda d: panels(d)[0]["targets"][0].pop("datasource"), "${datasource}"),
    "letter": (lambda d: panels(d)[0].update(targets=[]), "needs queries"),
    "first": (lambda d: d["templating"]["list"].reverse(), "the first variable"),
    "renewed": (lambda d: d["templating"]["list"][1].update(refresh=1), "must be renewed"),
    "all": (lambda d: d["templating"]["list"][3].update(includeAll=True), "variable `job`"),
    "several": (lambda d: d["templating"]["list"][1].update(multi=True), "variable `cluster`"),
}
PLANTED_EXPRESSIONS = {
    'relevanced_scores{job=~"$job"}': "no series relevanced_scores",
    'relevanced_score{job=~"$job",colour="red"}': "has no label colour",
    'sum by (colour) (relevanced_score{job=~"$job"})': "no series in it has the label colour",
    "relevanced_score": "must be selected by job",
    'relevanced_events_total{job=~"$job"}': "a counter inside nothing",
    'rate(relevanced_score{job=~"$job"}[$__rate_interval])': "a gauge inside rate",
    'rate(relevanced_events_total{job=~"$job"}[5m])': "[5m]: must be one of",
    'relevanced_score{job=~"$job",segment="$nobody"}': "no variable $nobody",
    'relevanced_owned_lanes{job=~"$job"}': "must be selected by instance",
}


def test_build_reproduces_the_dashboards(tmp_path: Path) -> None:
    subprocess.run([sys.executable, "-m", "deploy.grafana", tmp_path], cwd=ROOT, check=True)
    built, committed = (
        {path.name: path.read_text() for path in folder.glob("*.json")}
        for folder in (tmp_path, FOLDER)
    )
    assert built == committed, "run: make dashboards"


def imported(shared: Json, source: str) -> Json:
    """What Grafana makes of a file once the reader chose the data source: of the placeholders in
    texts only the name of an input is replaced."""
    [asked] = shared["__inputs"]
    assert (asked["type"], asked["pluginId"], asked["name"]) == (
        *("datasource", "prometheus"),
        "DS_PROMETHEUS",
    )
    text = json.dumps({key: value for key, value in shared.items() if not key.startswith("__")})
    return dict(json.loads(text.replace("${DS_PROMETHEUS}", source)))


@pytest.mark.parametrize("name", DASHBOARDS)
def test_dashboard_of_a_release_asks_for_the_data_source_and_is_the_same(
    name: str, tmp_path: Path
) -> None:
    assert release.main(["dashboards", str(tmp_path / "new")]) == 0
    assert {path.stem for path in (tmp_path / "new").iterdir()} == UIDS
    shared = json.loads((tmp_path / "new" / f"relevanced-{name}.json").read_text())
    provisioned = DASHBOARDS[name]
    made = imported(shared, "uid-of-mine")
    variable = made["templating"]["list"][0]
    assert variable["name"] == "datasource"
    assert variable.pop("current") == {"text": "uid-of-mine", "value": "uid-of-mine"}
    assert made.pop("id") is None
    assert made["description"].startswith(provisioned["description"])
    assert release.version() in made.pop("description")
    assert made == {key: value for key, value in provisioned.items() if key != "description"}
    needed = {(each["type"], each["id"]) for each in shared["__requires"]}
    types = {panel["type"] for panel in panels(provisioned)} - {"row"}
    assert needed == {("grafana", "grafana"), ("datasource", "prometheus")} | {
        ("panel", of) for of in types
    }


def test_provisioned_dashboards_ask_for_nothing() -> None:
    for path in FOLDER.glob("*.json"):
        assert "__inputs" not in path.read_text() and "${DS_" not in path.read_text()


@pytest.mark.parametrize("name", DASHBOARDS)
def test_dashboard_follows_the_rules(name: str) -> None:
    assert not faults(DASHBOARDS[name])


@pytest.mark.parametrize(("plant", "message"), PLANTED.values(), ids=PLANTED)
def test_planted_fault_is_found(plant: Callable[[Json], object], message: str) -> None:
    dashboard = copy.deepcopy(DASHBOARDS["pipeline"])
    plant(dashboard)
    assert any(message in fault for fault in faults(dashboard))


@pytest.mark.parametrize(("expression", "message"), PLANTED_EXPRESSIONS.items())
def test_planted_expression_is_found(expression: str, message: str) -> None:
    dashboard = copy.deepcopy(DASHBOARDS["pipeline"])
    panels(dashboard)[0]["targets"][0]["expr"] = expression
    assert any(message in fault for fault in faults(dashboard))


def test_links_lead_to_dashboards_that_exist() -> None:
    text = "".join(path.read_text() for path in FOLDER.glob("*.json"))
    assert set(re.findall(r"/d/([\w-]+)", text)) <= UIDS
    for dashboard in DASHBOARDS.values():
        link = dashboard["links"][-1]
        assert [address["url"] for address in dashboard["links"][:-1]] == ["${runbook}", "${page}"]
        assert link["tags"] == dashboard["tags"] and link["keepTime"] and link["includeVars"]


def marks(name: str) -> dict[str, str]:
    """Enabled annotation → its expression."""
    listed = DASHBOARDS[name]["annotations"]["list"]
    return {mark["name"]: mark["expr"] for mark in listed if mark["enable"]}


@pytest.mark.parametrize("name", DASHBOARDS)
def test_alerts_and_new_builds_are_marked(name: str) -> None:
    assert marks(name).keys() == {"Alerts", "Search release", "New build", "Change began", "Marked"}
    assert marks(name) == marks("overview")
    assert marks(name)["Alerts"].startswith("ALERTS{")


def everywhere(expression: str) -> str:
    """The expression for any installation."""
    return re.sub(r'(cluster|job|namespace)="\$\1"', r'\1=~".*"', expression)


def promtool_passes(path: Path, series: list[Json], queries: list[Json]) -> bool:
    test = {"interval": "1m", "input_series": series, "promql_expr_test": queries}
    path.write_text(yaml.safe_dump({"tests": [test]}))
    return "SUCCESS" in run("promtool", ["test", "rules", path])


@required("promtool")
def test_a_release_is_marked_where_its_first_impressions_are(tmp_path: Path) -> None:
    """Ranker v2 after 20 minutes; v1 has a pause of an hour; a new country is no release."""
    expression = everywhere(marks("overview")["Search release"])
    query = expression.replace("$releases", promql.RELEASES)
    seen = 'relevanced_impressions{job="r",view="live",grouping="%s",segment="%s"}'
    series = [
        {"series": seen % ("ranker", "v1"), "values": "9x30 _x60 9x60"},
        {"series": seen % ("ranker", "v2"), "values": "_x20 0 5x130"},
        {"series": seen % ("country", "US"), "values": "_x20 9x130"},
    ]
    marked = [{"labels": '{grouping="ranker",segment="v2"}', "value": 5}]
    expected = {"19m": [], "23m": marked, "30m": [], "93m": []}
    queries = [
        {"expr": query, "eval_time": at, "exp_samples": samples} for at, samples in expected.items()
    ]
    assert promtool_passes(tmp_path / "release.yml", series, queries)


@required("promtool")
def test_lost_records_are_those_of_the_range_whichever_process_counts_them(tmp_path: Path) -> None:
    """By topic: the first loss ever; a new pod that begins with old losses; a lease that goes to
    another process and back; a count that restarted with lost state."""
    [panel] = [p for p in panels(DASHBOARDS["pipeline"]) if p["title"] == "Lost records"]
    query = everywhere(panel["targets"][0]["expr"]).replace("$__range", "1h")
    lost = 'relevanced_gap_records_total{job="r",topic="%s",instance="%s"}'
    of_topics = {
        "first": ({"a": "_x90 500x30"}, 500),
        "pod": ({"a": "800x80 stale", "b": "_x82 800x38"}, 0),
        "back": ({"a": "500x70 stale _x20 5500x28", "b": "_x70 500x5 5500x15 stale"}, 5000),
        "restarted": ({"a": "500x60 0x9 60x50"}, 60),
    }
    time = {"series": 'relevanced_as_of_timestamp_seconds{job="r"}', "values": "0+60x120"}
    for topic, (processes, expected) in of_topics.items():
        series = [{"series": lost % (topic, p), "values": v} for p, v in processes.items()]
        at = {"expr": f"round({query})", "eval_time": "119m"}
        queries = [{**at, "exp_samples": [{"value": expected}]}]
        assert promtool_passes(tmp_path / f"{topic}.yml", [*series, time], queries), topic


@required("promtool")
def test_parts_of_a_change_add_up_where_weeks_had_the_same_shares_and_else_it_is_said(
    tmp_path: Path,
) -> None:
    """Of DE and US. In the last of three weeks US had 9000 impressions instead of 1000, at 0.3, so
    the baseline of the whole is the mean of 0.55, 0.55 and 0.375."""
    [panel] = [p for p in panels(DASHBOARDS["overview"]) if p["title"].startswith("Change of the")]
    assert "After a week with other shares they do not" in panel["description"]
    query = everywhere(" + ".join(f"({target['expr']})" for target in panel["targets"]))
    for name, value in {"metric": "P@1", "grouping": "country", "window": "1h"}.items():
        query = query.replace(f'"${name}"', f'"{value}"')
    of = '{job="r",metric="P@1",grouping="country",segment="%s",window="1h"}'
    # (recent score, impressions; baseline score, impressions) of DE and of US → sum of the parts
    steady = ((0.5, 3000, 0.6, 3000), (0.4, 1000, 0.4, 1000)), 0.475 - 0.55
    odd = ((0.58, 3000, 0.6, 3000), (0.4, 1000, 1.1 / 3, 11_000 / 3)), 0.535 - 0.47167
    names = [f"{s}_{n}" for s in ("recent", "baseline") for n in ("score", "scored_impressions")]
    for segments, expected in (steady, odd):
        series = [
            {"series": f"relevanced_{name}{of % segment}", "values": f"{value}x5"}
            for segment, values in zip(("DE", "US"), segments)
            for name, value in zip(names, values)
        ]
        at = {"expr": f"round({query}, 0.0001)", "eval_time": "5m"}
        queries = [{**at, "exp_samples": [{"value": round(expected, 4)}]}]
        assert promtool_passes(tmp_path / "parts.yml", series, queries), expected
    assert abs(odd[1] - (0.535 - (0.55 + 0.55 + 0.375) / 3)) > 0.01


@required("promtool")
def test_a_new_build_is_marked_and_a_restart_is_not(tmp_path: Path) -> None:
    """One process gets a new version after 20 minutes; the other was restarted before."""
    query = everywhere(marks("overview")["New build"])
    build = 'relevanced_build_info{job="r",version="%s",instance="%s"}'
    series = [
        {"series": build % ("1", "a"), "values": "1x20 _x20"},
        {"series": build % ("2", "a"), "values": "_x20 1x20"},
        {"series": build % ("1", "b"), "values": "1x9 _x1 1x30"},
    ]
    marked = [{"labels": '{version="2"}', "value": 1}]
    expected = {"12m": [], "19m": [], "22m": marked, "30m": []}
    queries = [
        {"expr": query, "eval_time": at, "exp_samples": samples} for at, samples in expected.items()
    ]
    assert promtool_passes(tmp_path / "build.yml", series, queries)


def test_a_change_is_marked_where_it_began_not_where_it_was_noticed() -> None:
    for dashboard in DASHBOARDS.values():
        [mark] = [m for m in dashboard["annotations"]["list"] if m["name"] == "Change began"]
        assert mark["useValueForTime"] and mark["expr"].startswith("1000 * ")
        assert 'bound="likely"' in mark["expr"]


def test_panels_stand_in_rows() -> None:
    for name in ("overview", "pipeline"):
        first, *rest = DASHBOARDS[name]["panels"]
        assert first["type"] == "row" and any(panel["type"] == "row" for panel in rest)


def test_the_objective_is_that_of_the_rules() -> None:
    rules = (ROOT / "deploy/prometheus/rules/freshness.yml").read_text()
    assert f"[3d]) > {1 - promql.OBJECTIVE:.3f} * 4320\n" in rules
    assert f"[6h]) > 6 * {1 - promql.OBJECTIVE:.3f} * 360\n" in rules


def test_states_look_different() -> None:
    """No traffic, undefined and 0 have three different texts and colours."""
    looks = [("0", "red"), *states.STATES.values()]
    assert len({text for text, _ in looks}) == len({colour for _, colour in looks}) == 3
    assert set(states.STATES) == {states.UNDEFINED, states.NO_TRAFFIC}


@pytest.mark.parametrize("name", DASHBOARDS)
def test_panels_with_states_have_texts_for_them(name: str) -> None:
    """A panel whose expression can give a state has a text for each state."""
    for panel in panels(DASHBOARDS[name]):
        text = json.dumps(panel["fieldConfig"])
        expression = "".join(target["expr"] for target in panel["targets"])
        if f"* 0 {states.NO_TRAFFIC}" in expression:
            assert '"undefined"' in text and '"no traffic"' in text, panel["title"]


def test_selectors_of_an_expression_are_found() -> None:
    expression = 'sum by (a) (rate(x_total{b="{1}",c=~"d"}[5m])) / on (e) group_left y or vector(0)'
    assert list(selectors(expression)) == [
        Selector("x_total", (("b", "=", "{1}"), ("c", "=~", "d")), "rate", "5m"),
        Selector("y", (), "", ""),
    ]
    assert aggregated_labels(expression) == {"a", "e"}
