"""`[experiments.NAME]`: how the experiments that somebody declares are read, checked and written.

Pure. They are tables of one form under names of the user's choice, so they stand beside the table
of settings, and no environment variable overrides them.
"""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Final, TypeAlias

from relevanced.metrics.metric import Metric

from ..events.timestamps import instant_ms, timestamp_text
from ..events.types import MAX_TEXT_BYTES
from ..experiments.specs import MOST_VARIANTS, PLANNED_IMPRESSIONS, USER, Spec, Tracking
from .kinds import InvalidValue, Kind, integer, number, optional, quoted, text
from .lists import several, table
from .sections import setting
from .tables import Told, read_fields, written_fields

SECTION: Final = "experiments"
MOST_PLANNED: Final = 10**12
_NAME_RULE: Final = f"a name must be 1 to {MAX_TEXT_BYTES} bytes"
_WEIGHT: Final = number("must be a number > 0", lambda v: v > 0)


def instant() -> Kind[int]:
    """A date and time with its zone, as milliseconds since the epoch."""

    def read(value: object) -> int:
        rule = "must be a time with its zone, as 2026-11-20T12:00:00Z"
        if not isinstance(value, str | datetime):
            raise InvalidValue((str(value), rule))
        try:
            return instant_ms(value)
        except ValueError:
            raise InvalidValue((str(value), rule)) from None

    return Kind("date and time", read, timestamp_text)


@dataclass(frozen=True)
class Declared:
    """One experiment."""

    control: str = setting("control", text(), "The variant that the others are compared with.")
    planned_impressions: int = setting(
        PLANNED_IMPRESSIONS,
        integer(1, MOST_PLANNED),
        "Impressions of all variants at which the decision is due; intervals are tightest there.",
    )
    weights: dict[str, float] = setting(
        {}, table("table of variant = share", _WEIGHT), "How traffic is dealt. Default: evenly."
    )
    metrics: tuple[str, ...] = setting(
        [], several(text(), "list of metrics"), "What is compared. Default: all of metrics.names."
    )
    primary: str | None = setting(
        None, optional(text()), "The metric that decides. Default: the first nDCG, else the first."
    )
    guardrails: tuple[str, ...] = setting(
        [], several(text(), "list of metrics"), "Metrics that must not get worse."
    )
    start_ms: int | None = setting(None, optional(instant()), "Impressions before do not count.")
    end_ms: int | None = setting(None, optional(instant()), "Impressions from then on do not.")
    unit: str = setting(
        USER, text(), "Whom variants are dealt to: user_id, impression, or an attribute's name."
    )
    stratify_by: str | None = setting(
        None,
        optional(text()),
        "A configured grouping, as country or country,device: its segments are compared too, "
        "and the difference is told as if the variants had the same mix of them.",
    )


Experiments: TypeAlias = tuple[tuple[str, Declared], ...]
"""Name → experiment, by name."""


def read(value: object) -> tuple[Experiments, list[Told]]:
    """The tables under `experiments`, and every fault of them."""
    if not isinstance(value, dict):
        return (), [(SECTION, value, "must be tables: [experiments.NAME]")]
    found: dict[str, Declared] = {}
    faults: list[Told] = []
    for name, inner in value.items():
        key = f"{SECTION}.{name}"
        if not 0 < len(name.encode(errors="surrogatepass")) <= MAX_TEXT_BYTES:
            faults.append((key, name, _NAME_RULE))
        elif not isinstance(inner, dict):
            faults.append((key, inner, f"must be a section: [{key}]"))
        else:
            values, more = read_fields(key, inner, Declared)
            found[name], faults = Declared(**values), [*faults, *more]
    return tuple(sorted(found.items())), faults


def broken(
    experiments: Experiments, metrics: Mapping[str, Metric], groupings: Collection[str]
) -> Iterator[Told]:
    """Every broken rule. `metrics`: those that are configured, by each of their spellings;
    `groupings` by their names."""
    for name, one in experiments:
        key = f"{SECTION}.{name}"
        if one.stratify_by is not None and one.stratify_by not in groupings:
            yield f"{key}.stratify_by", one.stratify_by, "must be one of segments.groupings"
        for field, names in (("metrics", one.metrics), ("guardrails", one.guardrails)):
            for metric in names:
                if metric not in metrics:
                    yield f"{key}.{field}", metric, "must be one of metrics.names"
        among = {metrics[metric].name for metric in one.metrics or metrics if metric in metrics}
        for field, names in (
            ("primary", () if one.primary is None else (one.primary,)),
            ("guardrails", one.guardrails),
        ):
            for metric in names:
                if metric not in metrics or metrics[metric].name not in among:
                    if field == "primary" or metric in metrics:
                        yield f"{key}.{field}", metric, "must be one of the experiment's metrics"
        yield from _arms(key, one)


def _arms(key: str, one: Declared) -> Iterator[Told]:
    if one.weights and (one.control not in one.weights or len(one.weights) < 2):
        rule = f"must name the control ({one.control}) and another variant"
        yield f"{key}.weights", one.weights, rule
    if len(one.weights) > MOST_VARIANTS:
        yield f"{key}.weights", len(one.weights), f"must be at most {MOST_VARIANTS} variants"
    if one.start_ms is not None and one.end_ms is not None and one.end_ms <= one.start_ms:
        yield f"{key}.end", instant().write(one.end_ms), "must be after the start"


def tracking(
    experiments: Experiments, most_discovered: int, metrics: Mapping[str, Metric]
) -> Tracking | None:
    """What lanes keep tallies of; None where that is nothing."""
    if not experiments and not most_discovered:
        return None
    declared = {name: _spec(name, one, metrics) for name, one in experiments}
    others = _spec("", Declared(), metrics, declared=False)
    return Tracking(declared, most_discovered, others)


def _spec(
    name: str, one: Declared, metrics: Mapping[str, Metric], *, declared: bool = True
) -> Spec:
    names = list(dict.fromkeys(metrics[metric].name for metric in one.metrics or metrics))
    first = next((metric for metric in names if metric.startswith("nDCG")), names[0])
    primary = first if one.primary is None else metrics[one.primary].name
    return Spec(
        name=name,
        control=one.control,
        planned_impressions=one.planned_impressions,
        metrics=(primary, *(metric for metric in names if metric != primary)),
        guardrails=tuple(metrics[metric].name for metric in one.guardrails),
        unit=one.unit,
        weights=tuple(sorted(one.weights.items())),
        start_ms=one.start_ms,
        end_ms=one.end_ms,
        declared=declared,
        stratify_by=one.stratify_by,
    )


def written(experiments: Experiments) -> Iterator[str]:
    """The lines of TOML."""
    for name, one in experiments:
        yield from ("", f"[{SECTION}.{quoted(name)}]", *written_fields(one))
