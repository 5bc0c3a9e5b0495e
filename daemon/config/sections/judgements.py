"""The settings of judgements, their rules, and what they mean to lanes."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

import numpy as np

from relevanced.metrics import Lists, Metric

from ...judgements import DEFAULT_MAX_GRADE, HIGHEST_GRADE, JudgedPlan, judged_plan
from ...plan import LARGEST_EXACT
from ..values.kinds import (
    LAYOUT,
    choice,
    flag,
    number,
    optional,
    setting,
    several,
    text as any_text,
)
from ..values.shared_rules import ConfigFault

SECTION: Final = "judgements"
MISSING: Final = f"{SECTION}.missing"
DEFAULT_METRICS: Final = ("nDCG@10", "P@5", "Judged@10")
SKIP: Final = "skip"
_GRADE: Final = number(f"must be > 0 and <= {HIGHEST_GRADE:g}", lambda v: 0 < v <= HIGHEST_GRADE)


@dataclass(frozen=True)
class JudgementsSection:
    """Judged quality of live traffic."""

    directory: str | None = setting(
        None,
        optional(any_text(rule="must be the name of a directory")),
        "Directory of judgements, as `relevanced judgements add` fills it. Default: nothing is"
        " judged.",
    )
    metrics: tuple[str, ...] | None = setting(
        None,
        optional(several(any_text(rule="must be the name of a metric"), "list of metrics")),
        "Metrics to score. Default, with a directory: nDCG@10, P@5 and Judged@10.",
        shapes=LAYOUT,
    )
    relevant_from: float = setting(
        1,
        _GRADE,
        "Lowest grade of a relevant item, for P, RR, Success and the like.",
        shapes=LAYOUT,
    )
    max_grade: float = setting(
        DEFAULT_MAX_GRADE,
        _GRADE,
        "Highest grade of the scale; a file with a higher one is refused.",
        shapes=LAYOUT,
    )
    unjudged: str = setting(
        "zero",
        choice("zero", SKIP),
        "An item without a judgement: zero gives it no gain, skip leaves it out.",
        shapes=LAYOUT,
    )
    missing: bool = setting(
        False,
        flag(),
        "Whether `relevanced judgements missing` can list what is shown and not judged. Needs"
        " [queries].",
        shapes=LAYOUT,
    )

    @property
    def is_on(self) -> bool:
        """Whether lists are scored by judgements. The text of a layout has metrics, and no
        directory: that is a matter of each process."""
        return self.metrics is not None


def with_defaults(section: JudgementsSection) -> JudgementsSection:
    """The section with the default metrics where a directory is given, and no metrics are."""
    if section.directory is None or section.metrics is not None:
        return section
    return replace(section, metrics=DEFAULT_METRICS)


def judged_of(section: JudgementsSection) -> JudgedPlan | None:
    """The judged metrics of lanes; None for none. Raises ValueError, with a line for each metric
    that cannot be judged."""
    return None if section.metrics is None else _plan(section, section.metrics)


def _plan(section: JudgementsSection, names: tuple[str, ...]) -> JudgedPlan:
    return judged_plan(
        names,
        relevant_from=section.relevant_from,
        max_grade=section.max_grade,
        unjudged="skip" if section.unjudged == SKIP else "zero",
    )


def missing_faults(section: JudgementsSection, *, keeps_queries: bool) -> Iterator[ConfigFault]:
    """What of counting items without a judgement cannot be."""
    if section.missing and not (section.is_on and keeps_queries):
        rule = f'needs {SECTION}.directory, and queries.text = "plain" or "hashed"'
        yield ConfigFault(MISSING, True, rule)


def faults_of(section: JudgementsSection, depth: int) -> Iterator[ConfigFault]:
    """What of the section cannot be, where lists are kept to this depth."""
    if section.metrics is None:
        return
    key, one_by_one = f"{SECTION}.metrics", list[str]()
    if not section.metrics:
        yield ConfigFault(key, [], "at least one metric is needed")
    if section.relevant_from > section.max_grade:
        rule = f"must be <= {SECTION}.max_grade ({section.max_grade:g})"
        yield ConfigFault(f"{SECTION}.relevant_from", section.relevant_from, rule)
        return
    for name in section.metrics:
        try:
            (metric,) = _plan(section, (name,)).metrics
        except ValueError as error:
            yield ConfigFault(key, name, str(error).removeprefix(f"{name!r}: "))
            continue
        if metric.name in one_by_one:
            yield ConfigFault(key, name, f"{metric.name} is given more than once")
        one_by_one.append(metric.name)
        if metric.k is not None and metric.k > depth:
            yield ConfigFault(key, name, f"k must be <= metrics.depth ({depth})")
        elif not _is_exact(metric, depth, section.max_grade):
            rule = "can become too large to be counted exactly, with grades up to"
            yield ConfigFault(key, name, f"{rule} {section.max_grade:g}")


def _is_exact(metric: Metric, depth: int, max_grade: float) -> bool:
    """Whether the value of the best list, in fixed-point units, is one that float64 can round."""
    best = np.full((1, metric.k or depth), max_grade)
    judged = np.ones(best.shape, np.bool_)
    lists = Lists(
        gains=best, lengths=np.array([best.size]), judged=judged, pool=best, assessed=judged
    )
    with np.errstate(all="ignore"):
        value = metric.highest(lists)
    return metric.unit * max(value, value * value) < LARGEST_EXACT


def directory_faults(
    section: JudgementsSection, is_directory: Callable[[Path], bool]
) -> Iterator[ConfigFault]:
    """What of the directory cannot be."""
    key = f"{SECTION}.directory"
    if section.directory is None and section.is_on:
        yield ConfigFault(key, None, f"must be given: {SECTION}.metrics are scored by its files")
    elif section.directory is not None and not is_directory(Path(section.directory)):
        yield ConfigFault(key, section.directory, "is no directory that can be read")
