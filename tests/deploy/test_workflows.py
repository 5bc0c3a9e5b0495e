"""The workflows: each job is bounded and has the fewest rights, actions are pinned, and what a step
runs is there. Forms of issues and the mixin name what there is."""

import json
import re
from collections.abc import Iterator
from typing import Any, Final

import pytest
import yaml

from tests.deploy.chart import DEPLOY
from tests.deploy.go_tools import ACTIONLINT, JSONNET

ROOT: Final = DEPLOY.parent
FOLDER: Final = ROOT / ".github" / "workflows"
NAMES: Final = sorted(path.name for path in FOLDER.iterdir())
PINNED: Final = re.compile(r"[\w-]+/[\w/-]+@(v\d+|release/v\d+|[0-9a-f]{40})")
WRITES: Final = {"id-token", "packages", "contents"}


def workflow(name: str) -> dict[Any, Any]:
    return dict(yaml.safe_load((FOLDER / name).read_text()))


def steps(name: str) -> Iterator[dict[str, Any]]:
    for job in workflow(name)["jobs"].values():
        yield from job["steps"]


@pytest.mark.parametrize("name", NAMES)
def test_jobs_are_bounded_and_read_only_unless_they_publish(name: str) -> None:
    found = workflow(name)
    assert found[True] and found["permissions"] == {"contents": "read"}  # `on` is YAML's true
    for job in found["jobs"].values():
        assert job["runs-on"] == "ubuntu-24.04" and 0 < job["timeout-minutes"] <= 180
        assert set(
            [job["needs"]] if isinstance(job.get("needs"), str) else job.get("needs", [])
        ) <= (set(found["jobs"]))
        writes = {right for right, to in job.get("permissions", {}).items() if to == "write"}
        assert writes <= (WRITES if name == "release.yml" else set())


@pytest.mark.parametrize("name", NAMES)
def test_actions_are_pinned_and_leave_no_login(name: str) -> None:
    for step in steps(name):
        assert ("uses" in step) != ("run" in step)
        if "uses" in step:
            assert PINNED.fullmatch(step["uses"]), step["uses"]
        if step.get("uses", "").startswith("actions/checkout@"):
            assert step["with"]["persist-credentials"] is False


@pytest.mark.parametrize("name", NAMES)
def test_the_linter_of_workflows_finds_nothing(name: str) -> None:
    ACTIONLINT.run("-shellcheck=", "-pyflakes=", FOLDER / name)


@pytest.mark.parametrize("name", NAMES)
def test_steps_run_what_is_there_and_take_nothing_from_outside(name: str) -> None:
    targets = set(re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    for step in steps(name):
        text = step.get("run", "")
        assert "${{" not in text  # a value with a quote in it would be run
        assert set(re.findall(r"\bmake ([\w-]+)", text)) <= targets
        for path in re.findall(r"(?<![\w/])((?:deploy|\.ci)/[\w./-]+)", text):
            assert (ROOT / path).exists(), path


def test_release_checks_the_tag_before_it_builds() -> None:
    runs = [step.get("run", "") for step in workflow("release.yml")["jobs"]["build"]["steps"]]
    check = runs.index('python -m deploy.release check "$GITHUB_REF_NAME"')
    assert check < runs.index("make dist")


def test_forms_of_issues_ask_for_what_is_needed() -> None:
    forms = [
        yaml.safe_load(path.read_text()) for path in (ROOT / ".github/ISSUE_TEMPLATE").glob("*")
    ]
    asked = {form["name"]: form["body"] for form in forms if "body" in form}
    assert set(asked) == {"Bug", "Format of events"}
    for body in asked.values():
        ids = [field["id"] for field in body]
        assert len(ids) == len(set(ids)) and all(field["attributes"]["label"] for field in body)
    assert "readyz" in str(asked["Bug"]) and "Three records" in str(asked["Format of events"])


def test_mixin_is_every_dashboard_and_group_of_rules() -> None:
    mixin = DEPLOY / "mixin" / "mixin.libsonnet"
    named = re.findall(r"import(?:str)? '([^']+)'", mixin.read_text())
    files = sorted(
        [*DEPLOY.glob("grafana/dashboards/*.json"), *DEPLOY.glob("prometheus/rules/*.yml")]
    )
    assert sorted((mixin.parent / name).resolve() for name in named) == files
    asked = "{dashboards: m.grafanaDashboards, groups: m.prometheusAlerts.groups}"
    made = json.loads(JSONNET.run("--exec", f"local m = import '{mixin}'; {asked}"))
    rules = [yaml.safe_load(path.read_text())["groups"] for path in files if path.suffix == ".yml"]
    assert made["groups"] == [group for groups in rules for group in groups]
    assert list(made["dashboards"].values()) == [
        json.loads(path.read_text()) for path in files if path.suffix == ".json"
    ]
