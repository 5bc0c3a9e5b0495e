"""Which metrics were asked for, and what their names mean. Pure."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final, Literal, TypeAlias

from relevanced.metrics import GEOMETRIC_FLOOR, Metric, Need, parse, several, split

Undefined: TypeAlias = Literal["zero", "skip"]
DEFAULT_METRICS: Final = (
    "AP",
    "nDCG@10",
    "P@10",
    "R@100",
    "RR",
    "Rprec",
    "Bpref",
    "Judged@10",
)

Asked: TypeAlias = Mapping[str, Metric]
"""Name as it was asked for → the metric that it means under the options."""


GEOMETRIC: Final = "GMAP"
"""AP whose mean is the geometric one."""
_NAMES_OF_GEOMETRIC: Final = ("gmap", "gm_map")
OPTIONS: Final[Mapping[Need, str]] = {"collection": "--collection-size", "known": "--known"}
"""What gives a need that judgements and runs do not have."""


class UnknownMetrics(Exception):
    """Names that mean no metric here; the message has a line for each."""


def asked_metrics(
    texts: Sequence[str],
    *,
    relevant_from: float,
    max_grade: float,
    ideal: str,
    given: Collection[Need] = (),
) -> dict[str, Metric]:
    """The metrics of the names, in their order, each once: under its first name; behind RBP its
    residual. Names are separated by commas or blanks; `given` is what there is beside judgements
    and runs. Raises UnknownMetrics with all faults.

    >>> list(asked_metrics(["P@5,RR", "nDCG@10"], relevant_from=1, max_grade=4, ideal="pool"))
    ['P@5', 'RR', 'nDCG@10']
    """
    names = [name for text in texts for name in several(text)] or list(DEFAULT_METRICS)
    by_name: dict[str, Metric] = {}
    faults = []
    for name in names:
        try:
            metric = _asked(name, relevant_from=relevant_from, max_grade=max_grade, ideal=ideal)
        except ValueError as error:
            faults.append(str(error))
            continue
        refusal = metric.refusal(["pool", *given], provider="judgements and runs")
        if refusal is not None:
            option = OPTIONS.get(metric.needs)
            faults.append(refusal if option is None else f"{refusal}: give {option}")
        elif metric not in by_name.values():
            by_name[name] = metric
            if split(name).family == "RBP":
                residual = _residual_of(metric)
                by_name.setdefault(residual.name, residual)
    if faults:
        raise UnknownMetrics("\n".join(faults))
    return by_name


def _residual_of(metric: Metric) -> Metric:
    """The residual of an RBP, without which its value says little: how much of it is unknown."""
    cutoff = "" if metric.k is None else f"@{metric.k}"
    return parse(f"RBPResidual(p={metric.number('p')}){cutoff}")


def _asked(name: str, **defaults: Any) -> Metric:
    """The metric of a name; of GMAP it is AP under that name. Raises ValueError."""
    family = split(name).family
    if family.lower() not in _NAMES_OF_GEOMETRIC:
        return parse(name, **defaults)
    metric = parse(name.replace(family, "AP", 1), **defaults)
    return replace(metric, name=metric.name.replace("AP", GEOMETRIC, 1))


def is_geometric(metric: Metric) -> bool:
    """Whether the mean of the metric is the geometric one."""
    return metric.name.startswith(GEOMETRIC)


def undefined_of(metric: Metric, undefined: Undefined) -> Undefined:
    """What becomes of queries for which the metric is undefined: where less is better they are
    left out, as 0 would be the best value."""
    return "skip" if metric.direction == "down" else undefined


def metric_meanings(metrics: Asked) -> list[str]:
    """A sentence for each name that means something else here than in a configuration of the
    daemon that leaves everything at its default.

    >>> given = asked_metrics(["nDCG@10", "RR"], relevant_from=1, max_grade=4, ideal="pool")
    >>> metric_meanings(given)
    ['nDCG@10 is nDCG(gain=exponential,ideal=pool)@10.']
    """
    found = [
        f"{name} is {metric.full_name}."
        for name, metric in metrics.items()
        if metric.settings != _asked(name).settings
    ]
    if any(map(is_geometric, metrics.values())):
        floor = f"{GEOMETRIC_FLOOR:.5f}"
        found.append(
            f"GMAP is the geometric mean of AP, which counts as {floor} where it is lower;"
            " comparisons are of its natural logarithm."
        )
    return found
