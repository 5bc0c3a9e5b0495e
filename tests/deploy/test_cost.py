"""What deploy/guide/cost-and-privacy.md says that series cost is what the exporter serves."""

import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final

import yaml

from relevanced.daemon.exporter import Exposition
from relevanced.daemon.views import VIEWS, LaneFiles
from tests.deploy.test_rules import rules
from tests.judged_lanes import JudgedHour, entry, exposed_judged, lane, scored, steady
from tests.lane_views import NOW_MS, PLAN, Shown, exposed, exposed_compared, lane_view, read_text

PAGE: Final = (Path(__file__).parent.parent.parent / "deploy/guide/cost-and-privacy.md").read_text()
HOUR_MS: Final = 3_600_000


def formula(metrics: int, windows: int) -> int:
    """Series of one segment, by the formula of the page."""
    (text,) = re.findall(r"^    S × (.+)$", PAGE, re.M)
    text = text.replace("×", "*").replace("M", str(metrics)).replace("W", str(windows))
    return int(eval(text, {"__builtins__": {}}))  # noqa: S307


def left(metrics: int, windows: int) -> int:
    """Series of one segment with the relabelling of the page."""
    (text,) = re.findall(r"What is left is (.+?) per segment", PAGE)
    text = text.replace("×", "*").replace("M", str(metrics)).replace("W", str(windows))
    return int(eval(text, {"__builtins__": {}}))  # noqa: S307


def of_the_whole(expositions: Iterable[Exposition]) -> list[tuple[str, dict[str, str]]]:
    """(name, labels) of the series of the whole."""
    return [
        (sample.name, sample.labels)
        for exposition in expositions
        for family in read_text(b"".join(exposition.text))
        for sample in family.samples
        if sample.labels.get("segment") == "all"
    ]


def dropped(name: str, labels: dict[str, str], relabelling: list[dict[str, Any]]) -> bool:
    values = {**labels, "__name__": name}
    return any(
        re.fullmatch(rule["regex"], ";".join(values.get(s, "") for s in rule["source_labels"]))
        for rule in relabelling
    )


def served() -> list[tuple[str, dict[str, str]]]:
    """The series of the whole, where searches arrive all the time."""
    until_ms = NOW_MS + PLAN.timing.settle_ms
    times = range(NOW_MS - HOUR_MS // 6, until_ms, 5_000)
    views = [lane_view([Shown(at, values=(1.0, 0.5, 0.2)) for at in times], watermark_ms=until_ms)]
    hours = of_the_whole([exposed_compared(views)])
    return of_the_whole([exposed(views)]) + 3 * hours


def test_judged_metrics_add_as_many_as_the_page_says() -> None:
    (text,) = re.findall(r"`\[judgements\]` come S × (.+?)\s+more", PAGE)
    hours = {start: JudgedHour(3600) for start in steady(24 * 23)}
    scores = scored(lane(hours, LaneFiles(0, (entry(0),))))
    values = {"J": len(scores.plan.metrics), "W": len(scores.plan.timing.windows)}
    for name, value in values.items():
        text = text.replace(name, str(value))
    count = int(eval(text.replace("×", "*"), {"__builtins__": {}}))  # noqa: S307
    assert len(of_the_whole([exposed_judged(scores)])) == count == 153
    assert f"{count} per segment" in PAGE


def test_a_segment_has_as_many_series_as_the_formula_says() -> None:
    metrics, windows = len(PLAN.metrics), len(PLAN.timing.windows)
    assert len(served()) == formula(metrics, windows)
    assert {labels["view"] for _, labels in served() if "view" in labels} == set(VIEWS)
    example, remaining = formula(8, 3), left(8, 3)
    assert f"that is {example} per segment" in PAGE
    assert f"per segment: {remaining} of {example}." in PAGE


def test_relabelling_leaves_what_the_page_says() -> None:
    (block,) = re.findall(r"```yaml\n(metric_relabel_configs:\n.*?)```", PAGE, re.S)
    relabelling = yaml.safe_load(block)["metric_relabel_configs"]
    kept = [one for one in served() if not dropped(*one, relabelling)]
    assert len(kept) == left(len(PLAN.metrics), len(PLAN.timing.windows))
    asked = {
        name for rule in rules() for name in re.findall(r"relevanced_[a-z0-9_]+", rule["expr"])
    }
    assert not [name for name in asked if dropped(name, {}, relabelling)]
    assert "relevanced_window_end_timestamp_seconds" in asked
    assert not dropped("relevanced_window_end_timestamp_seconds", {"view": "live"}, relabelling)


def test_every_promtool_case_has_at_most_one_sample_a_minute() -> None:
    """What the page says about scrapes every 60 s; rules on installations are evaluated sooner."""
    for path in sorted((Path(__file__).parent / "rules").glob("*.yml")):
        if path.name == "installations.yml":
            continue
        for case in yaml.safe_load(path.read_text())["tests"]:
            assert case["interval"].endswith("m"), (path.name, case["name"])
