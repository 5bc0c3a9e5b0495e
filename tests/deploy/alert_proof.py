"""Runs the shipped rules over simulated weeks in a real Prometheus, and counts.

The simulated gauges become blocks (`promtool tsdb create-blocks-from`). Every recording rule that
the alerts rest on is then asked as a range query and its answer becomes blocks in turn, in the
order of the files; at last the alerts' own expressions are asked, and `for` and `keep_firing_for`
applied to the answers.
"""

import re
import shutil
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import msgspec
import numpy as np
import yaml
from numpy.typing import NDArray

from tests.deploy.alert_traffic import PANE_S, WEEKS_BEFORE, Shown
from tests.services.prometheus_server import Prometheus, run

RULES: Final = Path(__file__).parent.parent.parent / "deploy" / "prometheus" / "rules"
ALERTS: Final = ("RelevancedScoreDropped", "RelevancedScoreSinking", "RelevancedScoreFarBelowUsual")
BLOCK: Final = "486h"
START_S: Final = 486 * 3600 * 970
"""Where a block of that size begins: the simulated time lies in one block."""

_UNIT_S: Final = {"m": 60, "h": 3600}
_RECORDED: Final = re.compile(r"\brelevanced:[a-z0-9_:]+")
_FAMILY_OF_FIELD: Final = {
    "score": "relevanced_recent_score",
    "stderr": "relevanced_recent_score_stderr",
    "impressions": "relevanced_recent_scored_impressions",
    "baseline": "relevanced_baseline_score",
    "baseline_stderr": "relevanced_baseline_score_stderr",
}


class Series(msgspec.Struct):
    """One series of an answer."""

    metric: dict[str, str]
    values: list[tuple[float, str]]


class _Matrix(msgspec.Struct):
    result: list[Series]


class _Answer(msgspec.Struct):
    data: _Matrix


_decoder: Final = msgspec.json.Decoder(_Answer)


@dataclass(frozen=True)
class Alert:
    """An alert as the rules define it."""

    name: str
    expression: str
    hold_s: int
    keep_s: int


def load(name: str) -> list[dict[str, Any]]:
    """The rules of a file, in order."""
    groups = yaml.safe_load((RULES / name).read_text())["groups"]
    return [rule for group in groups for rule in group["rules"]]


def alerts(names: Iterable[str] = ALERTS) -> list[Alert]:
    defined = {rule["alert"]: rule for rule in load("quality.yml")}
    return [
        Alert(
            name,
            defined[name]["expr"],
            _seconds(defined[name].get("for", "0m")),
            _seconds(defined[name].get("keep_firing_for", "0m")),
        )
        for name in names
    ]


def _seconds(text: str) -> int:
    return int(text[:-1]) * _UNIT_S[text[-1]]


def recorded_names(expression: str) -> set[str]:
    return set(_RECORDED.findall(expression))


def needed_rules(wanted: Iterable[Alert]) -> list[dict[str, Any]]:
    """The recording rules that the alerts rest on, in the order of the files."""
    rules = load("settings.yml") + load("changes.yml")
    names: set[str] = set()
    more = {name for alert in wanted for name in recorded_names(alert.expression)}
    while more - names:
        names |= more
        more = {
            n for rule in rules if rule["record"] in names for n in recorded_names(rule["expr"])
        }
    return [rule for rule in rules if rule["record"] in names]


class Bench:
    """A Prometheus over the blocks of one simulation."""

    def __init__(self, directory: Path, instants: int) -> None:
        self._directory = directory
        self._end_s = START_S + (instants - 1) * PANE_S

    def feed(self, shown: Mapping[str, Shown]) -> None:
        """The simulated gauges."""
        self._write(_gauge_lines(shown))

    def record(self, rules: Sequence[Mapping[str, Any]]) -> None:
        """Ask every rule, and keep its answers. Rules that do not need each other go together."""
        while rules:
            ready = _independent(rules)
            answers = self._ask([rule["expr"] for rule in ready])
            self._write(
                line
                for rule, found in zip(ready, answers, strict=True)
                for line in _lines(rule, found)
            )
            rules = rules[len(ready) :]

    def firing(self, alert: Alert, trials: int) -> NDArray[np.bool_]:
        """(trials, instants): where the alert fires."""
        instants = (self._end_s - START_S) // PANE_S + 1
        pending = np.zeros((trials, instants), bool)
        for series in self.answers(alert.expression):
            places = [int(time_s - START_S) // PANE_S for time_s, _ in series.values]
            pending[int(series.metric["segment"]), places] = True
        return kept(held(pending, alert.hold_s // PANE_S), alert.keep_s // PANE_S)

    def answers(self, query: str) -> list[Series]:
        """What Prometheus answers over the whole time."""
        return self._ask([query])[0]

    def close(self) -> None:
        shutil.rmtree(self._directory, ignore_errors=True)

    def _ask(self, queries: Sequence[str]) -> list[list[Series]]:
        server = Prometheus(self._directory)
        try:
            answers = (server.range_answer(q, START_S, self._end_s, PANE_S) for q in queries)
            return [_decoder.decode(answer).data.result for answer in answers]
        finally:
            server.close()

    def _write(self, lines: Iterable[str]) -> None:
        self._directory.mkdir(parents=True, exist_ok=True)
        text = self._directory / "samples.txt"
        with text.open("w") as file:
            file.writelines(lines)
            file.write("# EOF\n")
        create = ["tsdb", "create-blocks-from", f"--max-block-duration={BLOCK}", "--quiet"]
        run("promtool", [*create, "openmetrics", text, self._directory / "data"], patience_s=900)
        text.unlink()


def _independent(rules: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """The first rules, as many as do not rest on one of themselves."""
    made: set[str] = set()
    ready: list[Mapping[str, Any]] = []
    for rule in rules:
        if recorded_names(rule["expr"]) & made:
            break
        made.add(rule["record"])
        ready.append(rule)
    return ready


def _gauge_lines(shown: Mapping[str, Shown]) -> Iterator[str]:
    for window, values in shown.items():
        instants = values.score.shape[1]
        tails = [f" {START_S + place * PANE_S}\n" for place in range(instants)]
        head = f'relevanced_baseline_periods{{window="{window}",unit="week"}} {WEEKS_BEFORE}'
        yield from (head + tail for tail in tails)
        for field, family in _FAMILY_OF_FIELD.items():
            for trial, row in enumerate(getattr(values, field)):
                head = f'{family}{{metric="M",grouping="g",segment="{trial}",window="{window}"}} '
                yield from (
                    f"{head}{value:.9g}{tail}"
                    for value, tail in zip(row.tolist(), tails, strict=True)
                )


def _lines(rule: Mapping[str, Any], found: Iterable[Series]) -> Iterator[str]:
    for series in found:
        labels = series.metric | dict(rule.get("labels", {}))
        text = ",".join(f'{name}="{value}"' for name, value in labels.items() if name != "__name__")
        head = f"{rule['record']}{{{text}}} "
        yield from (f"{head}{value} {time_s:.0f}\n" for time_s, value in series.values)


def held(pending: NDArray[np.bool_], steps: int) -> NDArray[np.bool_]:
    """Where a condition has held for `steps` steps without a break."""
    count = np.cumsum(np.pad(pending, ((0, 0), (1, 0))), axis=1)
    out = np.zeros_like(pending)
    out[:, steps:] = count[:, steps + 1 :] - count[:, : -steps - 1] == steps + 1
    return out


def kept(firing: NDArray[np.bool_], steps: int) -> NDArray[np.bool_]:
    """What fires, and goes on for `steps` steps more."""
    out = firing.copy()
    for step in range(1, steps + 1):
        out[:, step:] |= firing[:, :-step]
    return out


def first_firing_hours(firing: NDArray[np.bool_], from_hour: int) -> NDArray[np.float64]:
    """Per trial, hours from the drop until something fires; infinite where nothing does."""
    after = firing[:, from_hour * 3600 // PANE_S :]
    hours = after.argmax(axis=1) * PANE_S / 3600
    return np.where(after.any(axis=1), hours, np.inf)


def fired(directory: Path, shown: Mapping[str, Shown]) -> dict[str, NDArray[np.bool_]]:
    """Alert → (trials, instants) where it fires, of a whole simulation."""
    trials, instants = shown["1h"].score.shape
    wanted = alerts()
    bench = Bench(directory, instants)
    try:
        bench.feed(shown)
        bench.record(needed_rules(wanted))
        return {alert.name: bench.firing(alert, trials) for alert in wanted}
    finally:
        bench.close()
