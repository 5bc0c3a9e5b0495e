"""Simulated installations in which something breaks, as the gauges that the exporter would serve,
and the shipped rules evaluated over them by promtool.

Every search belongs to a cell (country, device, arm). Each pane of five minutes draws, for each
cell, at which rank the first click is; eight metrics are functions of that rank, so they fall
together as they do in real traffic. Each installation is a `job` of one Prometheus.
"""

import json
import re
import subprocess
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from pathlib import Path
from typing import Final

import numpy as np
import yaml
from numpy.typing import NDArray

from relevanced.daemon.changes import ChangeSettings
from tests.services.prometheus_server import program

Floats = NDArray[np.float64]

COUNTRIES: Final = {"US": 0.4, "DE": 0.3, "FR": 0.15, "BR": 0.1, "IT": 0.05}
DEVICES: Final = ("desktop", "android", "ios")
ARMS: Final = ("control", "treatment")
CELLS: Final = tuple(product(COUNTRIES, DEVICES, ARMS))
ARM_GROUPING: Final = "experiment:ranker"
DEPTH: Final = 10
PANES_PER_HOUR: Final = 12
WINDOWS: Final = {"1h": 12, "6h": 72, "24h": 288}
BEFORE_PANES: Final = max(WINDOWS.values()) + PANES_PER_HOUR
WEEKS: Final = 3
DRIFT: Final = 0.004

_RANKS: Final = np.arange(1, DEPTH + 1)
_OF_RANK: Final[Mapping[str, Floats]] = {
    "Success@10": np.ones(DEPTH),
    "Success@3": (_RANKS <= 3) * 1.0,
    "RR@10": 1 / _RANKS,
    "P@1": (_RANKS <= 1) * 1.0,
    "P@5": (_RANKS <= 5) / 5,
    "P@10": np.full(DEPTH, 0.1),
    "ERR@10": 0.5 / _RANKS,
    "DCG@10": 1 / np.log2(_RANKS + 1),
}
METRICS: Final = tuple(_OF_RANK)
_VALUE: Final = np.array([[0.0, *of_rank] for of_rank in _OF_RANK.values()])
"""(metrics, 1 + DEPTH): the value of each metric without a click, and with the first at a rank."""
_USUAL: Final = np.array([0.3, *(0.7 * 0.7 * 0.3 ** np.arange(DEPTH))])

Touches = Callable[[str, str, str], float]


def shuffled(cells: Touches) -> "Fault":
    """The ranking of these cells is random: fewer clicks, and at any rank."""
    broken = np.array([0.58, *np.full(DEPTH, 0.42 / DEPTH)])
    return Fault(cells, broken)


def emptied(cells: Touches, share: float) -> "Fault":
    """A share of the searches of these cells finds nothing relevant."""
    broken = np.append(1.0, np.zeros(DEPTH))
    return Fault(lambda *cell: share * cells(*cell), broken)


@dataclass(frozen=True)
class Fault:
    """The share of the searches of each cell that it touches, and what these become."""

    touches: Touches
    broken: Floats


@dataclass(frozen=True)
class Scene:
    """One installation: its traffic, and the faults that begin at once."""

    per_hour: int
    faults: tuple[Fault, ...] = ()
    desktop: Mapping[str, float] = field(default_factory=lambda: {"DE": 0.7})
    """The share of desktop in a country; 0.45 where it is not named."""
    metrics: Collection[str] = METRICS


def gauges(scene: Scene, hours: int, rng: np.random.Generator) -> Iterator[tuple[str, Floats]]:
    """(series without its job, value every five minutes), for `hours` from the break on."""
    panes = BEFORE_PANES + hours * PANES_PER_HOUR
    shares = np.array([_share(scene, *cell) for cell in CELLS])
    drift = 1 + DRIFT * rng.standard_normal((2, len(CELLS)))
    usual, recent = (_outcomes(_USUAL, by) for by in drift)
    broken = _broken(recent, scene.faults)
    rates = scene.per_hour / PANES_PER_HOUR * shares
    counts = np.stack(
        [_draw(rng, rates, broken if pane >= BEFORE_PANES else recent) for pane in range(panes)]
    )
    ends = np.arange(BEFORE_PANES, panes)
    summed = np.concatenate([np.zeros((1, *counts.shape[1:])), counts.cumsum(axis=0)])
    for window, width in WINDOWS.items():
        now = summed[ends] - summed[ends - width]
        before = _draw(rng, WEEKS * width * rates, usual)[None] / WEEKS
        for grouping, segment, labels, members in segments():
            of = f'grouping="{grouping}",segment="{segment}",window="{window}"{labels}'
            yield from _of_segment("recent", of, now[:, members].sum(axis=1), 1, scene.metrics)
            yield from _of_segment(
                "baseline", of, before[:, members].sum(axis=1), WEEKS, scene.metrics
            )
        yield f'relevanced_baseline_periods{{unit="week",window="{window}"', np.array(
            [float(WEEKS)]
        )
    for setting, value in ChangeSettings().numbers.items():
        yield f'relevanced_setting{{setting="{setting}"', np.array([value])
    for metric in scene.metrics:
        ratio = ChangeSettings().drift_of(metric)
        yield f'relevanced_drift_ratio{{metric="{metric}"', np.array([ratio])


def segments() -> Iterator[tuple[str, str, str, list[int]]]:
    """(grouping, segment, its further labels, its cells)."""
    yield "all", "all", "", list(range(len(CELLS)))
    for country in COUNTRIES:
        yield "country", country, f',country="{country}"', _cells(lambda c, d, a: c == country)
    for device in DEVICES:
        yield "device", device, f',device="{device}"', _cells(lambda c, d, a: d == device)
    for arm in ARMS:
        labels = f',experiment="ranker",variant="{arm}"'
        yield ARM_GROUPING, arm, labels, _cells(lambda c, d, a: a == arm)
    for country, device in product(COUNTRIES, DEVICES):
        labels = f',country="{country}",device="{device}"'
        members = _cells(lambda c, d, a: (c, d) == (country, device))
        yield "country,device", f"{country},{device}", labels, members


def _cells(inside: Callable[[str, str, str], bool]) -> list[int]:
    return [number for number, cell in enumerate(CELLS) if inside(*cell)]


def _share(scene: Scene, country: str, device: str, arm: str) -> float:
    desktop = scene.desktop.get(country, 0.45)
    return COUNTRIES[country] * (desktop if device == "desktop" else (1 - desktop) / 2) / 2


def _outcomes(usual: Floats, by: Floats) -> Floats:
    """(cells, 1 + DEPTH): the usual outcomes with the chance of a click multiplied."""
    clicked = usual[1:] * by[:, None]
    return np.concatenate([1 - clicked.sum(axis=1, keepdims=True), clicked], axis=1)


def _broken(outcomes: Floats, faults: tuple[Fault, ...]) -> Floats:
    for fault in faults:
        touched = np.array([fault.touches(*cell) for cell in CELLS])[:, None]
        outcomes = (1 - touched) * outcomes + touched * fault.broken
    return outcomes


def _draw(rng: np.random.Generator, rates: Floats, outcomes: Floats) -> Floats:
    return rng.poisson(rates[:, None] * outcomes).astype(np.float64)


def _of_segment(
    side: str, of: str, counts: Floats, weeks: int, only: Collection[str]
) -> Iterator[tuple[str, Floats]]:
    n = np.maximum(counts.sum(axis=1), 1)
    yield f"relevanced_{side}_impressions{{{of}", n
    yield f"relevanced_{side}_impressions_with_feedback{{{of}", counts[:, 1:].sum(axis=1)
    yield f"relevanced_{side}_zero_result_impressions{{{of}", n * 0.03
    means = counts @ _VALUE.T / n[:, None]
    variances = counts @ (_VALUE.T**2) / n[:, None] - means**2
    for number, metric in enumerate(METRICS):
        if metric not in only:
            continue
        here = f'{{metric="{metric}",{of}'
        yield f"relevanced_{side}_score{here}", means[:, number]
        error = np.sqrt(variances[:, number] / (n * weeks))
        yield f"relevanced_{side}_score_stderr{here}", error
        yield f"relevanced_{side}_scored_impressions{here}", n


@dataclass(frozen=True, order=True)
class Fired:
    """An alert that fired at some time."""

    segment: str
    """`grouping segment`; `all` for the whole."""
    alert: str
    metric: str
    severity: str


def fired(
    scenes: Mapping[str, Scene], rules: list[Path], directory: Path, seed: int, *, hours: int = 4
) -> dict[str, list[tuple[int, Fired]]]:
    """Job → (minutes after the break, alert) of every alert of kind quality that fires, looked at
    every five minutes. Each installation is a test of its own: promtool bounds samples per query.
    """
    rng = np.random.default_rng(seed)
    served = {job: list(gauges(scene, hours, rng)) for job, scene in scenes.items()}
    return fired_by(served, rules, directory, hours)


def fired_by(
    served: Mapping[str, Sequence[tuple[str, Floats]]],
    rules: list[Path],
    directory: Path,
    hours: int,
) -> dict[str, list[tuple[int, Fired]]]:
    """As `fired`, of these series: job → (series without its job, value every five minutes)."""
    path = directory / "scenes.yml"
    groups = [group["name"] for r in rules for group in yaml.safe_load(r.read_text())["groups"]]
    files = [str(rule) for rule in rules]
    head = {"rule_files": files, "evaluation_interval": "5m", "group_eval_order": groups}
    with path.open("w") as file:  # JSON is YAML
        file.write(json.dumps(head)[:-1] + ', "tests": [\n')
        file.write(",\n".join(_test(job, series, hours) for job, series in served.items()))
        file.write("]}")
    done = subprocess.run(
        [program("promtool"), "test", "rules", path], text=True, capture_output=True, check=False
    )
    output = done.stdout + done.stderr
    assert "err: " not in output, output
    found: dict[str, list[tuple[int, Fired]]] = {job: [] for job in served}
    for hour, minute, texts in _LOOK.findall(output):
        at = 60 * int(hour or 0) + int(minute)
        for labels in _LABELS.findall(texts):
            of = dict(re.findall(r'(\w+)="([^"]*)"', labels))
            found[of["job"]].append((at, _fired(of)))
    return found


_LOOK: Final = re.compile(
    r"time: (?:(\d+)h)?(\d+)m(?:0s)?,\s+exp:.*?got:(.*?)(?=expr:|$)", re.DOTALL
)
_LABELS: Final = re.compile(r'\{__name__="ALERTS",([^}]*)\}')
_FIRING: Final = 'ALERTS{alertname=~"Relevanced.+",alertstate="firing",kind="quality"}'


def _fired(labels: Mapping[str, str]) -> Fired:
    segment = f"{labels.get('grouping', '')} {labels.get('segment', '')}"
    name = labels["alertname"].removeprefix("Relevanced")
    whole = segment.replace("all all", "all")
    return Fired(whole, name, labels.get("metric", ""), labels["severity"])


def _test(job: str, served: Sequence[tuple[str, Floats]], hours: int) -> str:
    looks = [
        {"expr": _FIRING, "eval_time": f"{minute}m", "exp_samples": []}
        for minute in range(5, hours * 60, 5)
    ]
    series = ",\n".join(_line(job, *one, hours) for one in served)
    return (
        f'{{"interval": "5m", "promql_expr_test": {json.dumps(looks)}, "input_series": [{series}]}}'
    )


def _line(job: str, series: str, values: Floats, hours: int) -> str:
    steps = hours * PANES_PER_HOUR
    # As in a scrape that does not find the series any more.
    each = ["stale" if np.isnan(value) else f"{value:.6g}" for value in values]
    text = f"{each[0]}x{steps}" if len(each) == 1 else " ".join(each)
    return json.dumps({"series": f'{series},job="{job}"}}', "values": text})
