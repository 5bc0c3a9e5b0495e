"""`[experiments.NAME]`: reads, checks and writes the declared experiments. Pure.

They are tables under names of the user's choice, so they are not part of the table of settings, and
no environment variable overrides them.
"""

import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Final, TypeAlias

from relevanced.metrics import Metric, parse

from ...events import MAX_TEXT_BYTES, instant_ms, timestamp_text
from ...experiments import MOST_VARIANTS, PLANNED_IMPRESSIONS, USER, Spec, Tracking
from ...plan import Surfaces, meaning_of
from ..values.kinds import (
    InvalidValue,
    Kind,
    integer,
    number,
    optional,
    quoted,
    setting,
    several,
    table,
    text,
)
from ..values.shared_rules import FieldFault, fields_of, read_fields, written_fields

SECTION: Final = "experiments"
MOST_PLANNED: Final = 10**12
NOTHING_DERIVED: Final[Mapping[str, str]] = {}
_NAME_RULE: Final = f"a name must be 1 to {MAX_TEXT_BYTES} bytes"
_WEIGHT: Final = number("must be a number > 0", lambda v: v > 0)


def instant() -> Kind[int]:
    """A date and time with its zone, in milliseconds since the epoch."""

    def read(value: object) -> int:
        rule = "must be a date and time with zone, such as 2026-11-20T12:00:00Z"
        if not isinstance(value, str | datetime):
            raise InvalidValue((str(value), rule))
        try:
            return instant_ms(value)
        except ValueError:
            raise InvalidValue((str(value), rule)) from None

    return Kind("date and time", read, timestamp_text)


def ramp() -> Kind[dict[int, dict[str, float]]]:
    """Planned shares by the time from which on they hold."""
    shares, at = table("table of variant = share", _WEIGHT), instant()

    def entry(pair: tuple[str, object]) -> tuple[int, dict[str, float]]:
        key, value = pair
        try:
            return at.read(key), shares.read(value)
        except InvalidValue as invalid:
            faults = ((f"{key}: {wrong}", rule) for wrong, rule in invalid.faults)
            raise InvalidValue(*faults) from None

    def read(value: object) -> dict[int, dict[str, float]]:
        if not isinstance(value, dict):
            raise InvalidValue((value, "must be a table of time = { variant = share, … }"))
        return dict(sorted(map(entry, value.items())))

    def write(value: dict[int, dict[str, float]]) -> str:
        pairs = (f"{quoted(timestamp_text(t))} = {shares.write(of)}" for t, of in value.items())
        return "{ " + ", ".join(pairs) + " }" if value else "{}"

    return Kind("table of time = { variant = share }", read, write)


@dataclass(frozen=True)
class DeclaredExperiment:
    """One declared experiment."""

    control: str = setting("control", text(), "The variant with which the others are compared.")
    planned_impressions: int = setting(
        PLANNED_IMPRESSIONS,
        integer(1, MOST_PLANNED),
        "Impressions of all variants when the decision is due: there intervals are narrowest.",
    )
    weights: dict[str, float] = setting(
        {},
        table("table of variant = share", _WEIGHT),
        "Share of traffic of each variant. Default: equal shares.",
    )
    ramp: dict[int, dict[str, float]] = setting(
        {},
        ramp(),
        "Other shares from a time on, declared before it; a day (UTC) within which they change is "
        "not compared.",
    )
    daily_cap: int | None = setting(
        None,
        optional(integer(1, MOST_PLANNED)),
        "Impressions of a unit that count per lane and day (UTC), if it has over 0.8 % of them.",
    )
    metrics: tuple[str, ...] = setting(
        [], several(text(), "list of metrics"), "Metrics to compare. Default: all of metrics.names."
    )
    primary: str | None = setting(
        None,
        optional(text()),
        "The metric that decides. Default: the first RR, else Success, else one that is "
        "defined for every list.",
    )
    guardrails: tuple[str, ...] = setting(
        [], several(text(), "list of metrics"), "Metrics that must not get worse."
    )
    start_ms: int | None = setting(
        None, optional(instant()), "Impressions before this time do not count."
    )
    end_ms: int | None = setting(
        None, optional(instant()), "Impressions from this time on do not count. Set it before."
    )
    unit: str = setting(
        USER,
        text(),
        "What is assigned to a variant: user_id, impression, or the name of an attribute.",
    )
    stratify_by: str | None = setting(
        None,
        optional(text()),
        "One of segments.groupings: its segments are compared too, and the difference as if "
        "all variants had the same mix of them.",
    )


Experiments: TypeAlias = tuple[tuple[str, DeclaredExperiment], ...]
"""(name, experiment), sorted by name"""


def read(value: object) -> tuple[Experiments, list[FieldFault]]:
    """The experiments of the tables under `experiments`, and every fault of the tables."""
    if not isinstance(value, dict):
        return (), [(SECTION, value, "must be tables: [experiments.NAME]")]
    declared: dict[str, DeclaredExperiment] = {}
    faults: list[FieldFault] = []
    for name, inner in value.items():
        key = f"{SECTION}.{name}"
        if not 0 < len(name.encode(errors="surrogatepass")) <= MAX_TEXT_BYTES:
            faults.append((key, name, _NAME_RULE))
        elif not isinstance(inner, dict):
            faults.append((key, inner, f"must be a section: [{key}]"))
        else:
            values, more = read_fields(key, inner, DeclaredExperiment)
            declared[name], faults = DeclaredExperiment(**values), [*faults, *more]
    return tuple(sorted(declared.items())), faults


def faults_of(
    experiments: Experiments, metrics: Mapping[str, Metric], groupings: Collection[str]
) -> Iterator[FieldFault]:
    """Every fault of the experiments.

    `metrics` are the configured metrics by each of their spellings, `groupings` the names of the
    configured groupings.
    """
    for name, experiment in experiments:
        key = f"{SECTION}.{name}"
        if experiment.stratify_by is not None and experiment.stratify_by not in groupings:
            yield f"{key}.stratify_by", experiment.stratify_by, "must be one of segments.groupings"
        yield from _metric_faults(key, experiment, metrics)
        yield from _variant_faults(key, experiment)


def _metric_faults(
    key: str, experiment: DeclaredExperiment, metrics: Mapping[str, Metric]
) -> Iterator[FieldFault]:
    for field, names in (("metrics", experiment.metrics), ("guardrails", experiment.guardrails)):
        for name in names:
            if name not in metrics:
                yield f"{key}.{field}", name, "must be one of metrics.names"
    compared = {metrics[name].name for name in experiment.metrics or metrics if name in metrics}
    rule = "must be one of the experiment's metrics"
    if experiment.primary is not None:
        if experiment.primary not in metrics or metrics[experiment.primary].name not in compared:
            yield f"{key}.primary", experiment.primary, rule
    for name in experiment.guardrails:
        if name in metrics and metrics[name].name not in compared:
            yield f"{key}.guardrails", name, rule


def _variant_faults(key: str, experiment: DeclaredExperiment) -> Iterator[FieldFault]:
    if experiment.weights and (
        experiment.control not in experiment.weights or len(experiment.weights) < 2
    ):
        rule = f"must name the control ({experiment.control}) and another variant"
        yield f"{key}.weights", experiment.weights, rule
    if len(experiment.weights) > MOST_VARIANTS:
        yield f"{key}.weights", len(experiment.weights), f"must be at most {MOST_VARIANTS} variants"
    for at_ms, weights in experiment.ramp.items():
        if experiment.control not in weights or not 2 <= len(weights) <= MOST_VARIANTS:
            rule = f"must name the control ({experiment.control}) and 1 to {MOST_VARIANTS - 1} more"
            yield f"{key}.ramp.{timestamp_text(at_ms)}", weights, rule
    if (
        experiment.start_ms is not None
        and experiment.end_ms is not None
        and experiment.end_ms <= experiment.start_ms
    ):
        yield f"{key}.end", instant().write(experiment.end_ms), "must be after the start"


def tracking(
    experiments: Experiments,
    most_discovered: int,
    metrics: Mapping[str, Metric],
    surfaces: Surfaces | None = None,
    derived: Mapping[str, str] = NOTHING_DERIVED,
) -> Tracking | None:
    """The experiments that lanes keep tallies of; None if there are none. `derived` has the meaning
    of each derived attribute."""
    if not experiments and not most_discovered:
        return None
    meanings = {metric.name: meaning_of(metric, surfaces) for metric in metrics.values()}
    declared = {name: _spec(name, experiment, metrics) for name, experiment in experiments}
    others = _spec("", DeclaredExperiment(), metrics, declared=False)
    return Tracking(
        {name: _with_meanings(spec, meanings, derived) for name, spec in declared.items()},
        most_discovered,
        _with_meanings(others, meanings, derived),
    )


def _with_meanings(spec: Spec, meanings: Mapping[str, str], derived: Mapping[str, str]) -> Spec:
    """The experiment with what its metrics and attributes mean where that is not what their names
    alone mean."""
    others = [meanings[name] for name in spec.metrics if meanings[name] != parse(name).full_name]
    attributes = {spec.unit, *(spec.stratify_by or "").split(",")}
    others += [derived[name] for name in sorted(attributes.intersection(derived))]
    return replace(spec, meanings=tuple(others))


def _spec(
    name: str,
    experiment: DeclaredExperiment,
    metrics: Mapping[str, Metric],
    *,
    declared: bool = True,
) -> Spec:
    names = list(dict.fromkeys(metrics[metric].name for metric in experiment.metrics or metrics))
    compared = [metrics[metric] for metric in experiment.metrics or metrics]
    primary = _default_primary(compared)
    if experiment.primary is not None:
        primary = metrics[experiment.primary].name
    return Spec(
        name=name,
        control=experiment.control,
        planned_impressions=experiment.planned_impressions,
        metrics=(primary, *(metric for metric in names if metric != primary)),
        guardrails=tuple(metrics[metric].name for metric in experiment.guardrails),
        unit=experiment.unit,
        weights=tuple(sorted(experiment.weights.items())),
        ramp=tuple((at, tuple(sorted(of.items()))) for at, of in experiment.ramp.items()),
        start_ms=experiment.start_ms,
        end_ms=experiment.end_ms,
        declared=declared,
        stratify_by=experiment.stratify_by,
        daily_cap=experiment.daily_cap,
    )


def _default_primary(metrics: Collection[Metric]) -> str:
    """Of a metric that some lists leave undefined a treatment influences which lists count."""
    for family in ("RR", "Success"):
        for metric in metrics:
            if re.match(rf"{family}\b", metric.name):
                return metric.name
    always = (
        metric.name
        for metric in metrics
        if metric.entry.undefined == "never" or metric.zero_undefined
    )
    return next(always, next(iter(metrics)).name)


def changes(before: Experiments, after: Experiments) -> Iterator[tuple[str, str, str]]:
    """(key, value before, value after) of each setting that differs, as TOML, of experiments that
    are declared in both."""
    declared = dict(after)
    for name, old in before:
        if name not in declared:
            continue
        for key, entry in fields_of(DeclaredExperiment).items():
            values = [getattr(one, entry.name) for one in (old, declared[name])]
            if values[0] != values[1]:
                write = entry.metadata["kind"].write
                was, now = ("not set" if value is None else write(value) for value in values)
                yield f"{SECTION}.{name}.{key}", was, now


def written(experiments: Experiments) -> Iterator[str]:
    """The lines of TOML of all experiments."""
    for name, experiment in experiments:
        yield from ("", f"[{SECTION}.{quoted(name)}]", *written_fields(experiment))
