"""The metrics that were asked for, under the names that they were asked for. Pure."""

from collections.abc import Mapping, Sequence
from typing import Final, TypeAlias

from relevanced.metrics import Metric, parse
from relevanced.metrics.names import several

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


class UnknownMetrics(Exception):
    """Names that mean no metric here; the message has a line for each."""


def asked(
    texts: Sequence[str], *, relevant_from: float, max_grade: float, ideal: str
) -> dict[str, Metric]:
    """The metrics of the names, in their order, each once: under its first name. Names are
    separated by commas or blanks. Raises UnknownMetrics with all faults.

    >>> list(asked(["P@5,RR", "nDCG@10"], relevant_from=1, max_grade=4, ideal="pool"))
    ['P@5', 'RR', 'nDCG@10']
    """
    names = [name for text in texts for name in several(text)] or list(DEFAULT_METRICS)
    by_name: dict[str, Metric] = {}
    faults = []
    for name in names:
        try:
            metric = parse(name, relevant_from=relevant_from, max_grade=max_grade, ideal=ideal)
        except ValueError as error:
            faults.append(str(error))
            continue
        refusal = metric.refusal(["pool"], provider="judgements and runs")
        if refusal is not None:
            faults.append(refusal)
        elif metric not in by_name.values():
            by_name[name] = metric
    if faults:
        raise UnknownMetrics("\n".join(faults))
    return by_name


def meanings(metrics: Asked) -> list[str]:
    """A sentence for each name that means something else here than in a configuration of the
    daemon that leaves everything at its default.

    >>> meanings(asked(["nDCG@10", "RR"], relevant_from=1, max_grade=4, ideal="pool"))
    ['nDCG@10 is nDCG(gain=exponential,ideal=pool)@10.']
    """
    return [
        f"{name} is {metric.full_name}."
        for name, metric in metrics.items()
        if metric.settings != parse(name).settings
    ]
