"""Evaluates the shipped rules over simulated weeks in a real Prometheus.

The simulated gauges become blocks (`promtool tsdb create-blocks-from`). Every recording rule that
the alerts depend on is then evaluated as a range query, in the order of the files, and its result
becomes further blocks. At last the expressions of the alerts are evaluated, and `for` and
`keep_firing_for` are applied to the results.
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

from relevanced.daemon.changes import ChangeSettings, MadeOf, WeekSides
from tests.deploy.alert_screen import WEEKS
from tests.deploy.alert_traffic import PANE_S
from tests.services.prometheus_server import Prometheus, run

RULES: Final = Path(__file__).parent.parent.parent / "deploy" / "prometheus" / "rules"
ALERTS: Final = ("RelevancedScoreDropped", "RelevancedScoreSinking", "RelevancedScoreFarBelowUsual")
METRIC: Final = "M"
"""Any name: of metrics that the rules do not know higher is better."""
BLOCK: Final = "486h"
START_S: Final = 486 * 3600 * 970
"""A time at which a block of that size begins, so that the simulated time fits into one block."""

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
    """One series of a query result."""

    metric: dict[str, str]
    values: list[tuple[float, str]]


class _Matrix(msgspec.Struct):
    result: list[Series]


class _Answer(msgspec.Struct):
    data: _Matrix


_decoder: Final = msgspec.json.Decoder(_Answer)


@dataclass(frozen=True)
class Alert:
    """An alert as defined in the rules; `for` and `keep_firing_for` in seconds."""

    name: str
    expression: str
    for_s: int
    keep_firing_s: int


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
    """The recording rules that the alerts depend on, in the order of the files."""
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
    """A Prometheus with the blocks of one simulation."""

    def __init__(self, directory: Path, instants: int) -> None:
        self._directory = directory
        self._end_s = START_S + (instants - 1) * PANE_S

    def feed(
        self,
        gauges: Mapping[str, WeekSides],
        made_of: Mapping[str, MadeOf] = WEEKS,
        metric: str = METRIC,
    ) -> None:
        """Store the simulated gauges."""
        self._write(_gauge_lines(gauges, made_of, metric))

    def feed_lines(self, lines: Iterable[str]) -> None:
        """Store samples, each a line with its time."""
        self._write(lines)

    def record(self, rules: Sequence[Mapping[str, Any]]) -> None:
        """Evaluate every rule and store its result. Rules that are independent go together."""
        while rules:
            ready = _independent(rules)
            results = self._query([rule["expr"] for rule in ready])
            self._write(
                line
                for rule, result in zip(ready, results, strict=True)
                for line in _lines(rule, result)
            )
            rules = rules[len(ready) :]

    def firing(self, alert: Alert, trials: int) -> NDArray[np.bool_]:
        """Whether the alert fires, (trials, instants)."""
        fires = self.called(alert, trials)
        return keep_firing(fires, alert.keep_firing_s // PANE_S)

    def called(self, alert: Alert, trials: int) -> NDArray[np.bool_]:
        """Whether the expression of the alert holds, and has for as long as the alert demands;
        (trials, instants)."""
        instants = (self._end_s - START_S) // PANE_S + 1
        pending = np.zeros((trials, instants), bool)
        for series in self.result(alert.expression):
            instants_of = [int(time_s - START_S) // PANE_S for time_s, _ in series.values]
            pending[int(series.metric["segment"]), instants_of] = True
        return after_for(pending, alert.for_s // PANE_S)

    def result(self, query: str) -> list[Series]:
        """The result of a range query over the whole simulated time."""
        return self._query([query])[0]

    def close(self) -> None:
        shutil.rmtree(self._directory, ignore_errors=True)

    def _query(self, queries: Sequence[str]) -> list[list[Series]]:
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
    """The first rules, up to the first one that depends on another of them."""
    recorded: set[str] = set()
    ready: list[Mapping[str, Any]] = []
    for rule in rules:
        if recorded_names(rule["expr"]) & recorded:
            break
        recorded.add(rule["record"])
        ready.append(rule)
    return ready


def _setting_lines(instants: int, metric: str) -> Iterator[str]:
    """The settings that an installation with the defaults serves."""
    numbers = ChangeSettings().numbers
    heads = [f'relevanced_setting{{setting="{name}"}} {value!r}' for name, value in numbers.items()]
    heads.append(f'relevanced_drift_ratio{{metric="{metric}"}} {ChangeSettings().drift_ratio!r}')
    for head in heads:
        yield from (f"{head} {START_S + instant * PANE_S}\n" for instant in range(instants))


def _period_lines(window: str, made_of: MadeOf, instants: int) -> Iterator[str]:
    periods = np.broadcast_to(made_of.periods, instants).tolist()
    of_days = np.broadcast_to(made_of.of_days, instants).tolist()
    for unit in ("day", "week"):
        head = f'relevanced_baseline_periods{{window="{window}",unit="{unit}"}}'
        for instant in np.flatnonzero(np.array(of_days) == (unit == "day")).tolist():
            yield f"{head} {periods[instant]} {START_S + instant * PANE_S}\n"


def _gauge_lines(
    gauges: Mapping[str, WeekSides], made_of: Mapping[str, MadeOf], metric: str
) -> Iterator[str]:
    """A value that is undefined has no sample."""
    yield from _setting_lines(next(iter(gauges.values())).score.shape[1], metric)
    for window, values in gauges.items():
        instants = values.score.shape[1]
        tails = [f" {START_S + instant * PANE_S}\n" for instant in range(instants)]
        yield from _period_lines(window, made_of[window], instants)
        for field, family in _FAMILY_OF_FIELD.items():
            for trial, row in enumerate(getattr(values, field)):
                labels = f'metric="{metric}",grouping="g",segment="{trial}",window="{window}"'
                head = f"{family}{{{labels}}} "
                yield from (
                    f"{head}{value:.9g}{tail}"
                    for value, tail in zip(row.tolist(), tails, strict=True)
                    if value == value
                )


def _lines(rule: Mapping[str, Any], result: Iterable[Series]) -> Iterator[str]:
    for series in result:
        labels = series.metric | dict(rule.get("labels", {}))
        text = ",".join(f'{name}="{value}"' for name, value in labels.items() if name != "__name__")
        head = f"{rule['record']}{{{text}}} "
        yield from (f"{head}{value} {time_s:.0f}\n" for time_s, value in series.values)


def after_for(pending: NDArray[np.bool_], steps: int) -> NDArray[np.bool_]:
    """`for`: where a condition has been true for `steps` steps without a break."""
    count = np.cumsum(np.pad(pending, ((0, 0), (1, 0))), axis=1)
    out = np.zeros_like(pending)
    out[:, steps:] = count[:, steps + 1 :] - count[:, : -steps - 1] == steps + 1
    return out


def keep_firing(firing: NDArray[np.bool_], steps: int) -> NDArray[np.bool_]:
    """`keep_firing_for`: where an alert fires or has fired in the last `steps` steps."""
    out = firing.copy()
    for step in range(1, steps + 1):
        out[:, step:] |= firing[:, :-step]
    return out


def first_firing_hours(firing: NDArray[np.bool_], from_hour: int) -> NDArray[np.float64]:
    """Hours from the drop until an alert fires, (trials,); infinite where none does."""
    after = firing[:, from_hour * 3600 // PANE_S :]
    hours = after.argmax(axis=1) * PANE_S / 3600
    return np.where(after.any(axis=1), hours, np.inf)


def firing_by_alert(
    directory: Path, gauges: Mapping[str, WeekSides]
) -> dict[str, NDArray[np.bool_]]:
    """Alert → whether it fires, (trials, instants), over a whole simulation."""
    trials, instants = gauges["1h"].score.shape
    wanted = alerts()
    bench = Bench(directory, instants)
    try:
        bench.feed(gauges)
        bench.record(needed_rules(wanted))
        return {alert.name: bench.firing(alert, trials) for alert in wanted}
    finally:
        bench.close()
