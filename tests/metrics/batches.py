"""Random lists for tests, and metrics of every family of the catalog."""

from collections.abc import Iterator
from typing import Final

import numpy as np

from relevanced.metrics import CATALOG, Entry, Metric, parse
from tests.metrics.oracles import Plain

MAX_GRADE: Final = 3
VARIANTS: Final = (
    "P(rel=2)@4",
    "P(variant=shown)@4",
    "F(beta=2)@3",
    "RR(rel=2)",
    "AP(variant=returned)",
    "AP(variant=11pt)",
    "IPrec@0.1",
    "IPrec@0.7",
    "IPrec@1",
    "Bpref(variant=original)",
    "Bpref(variant=10)",
    "RBP(p=0.5)",
    "DCG(gain=linear,jk=2)@4",
    "nCG(gain=exponential,ideal=pool)",
    "nDCG(gain=linear)@3",
    "nDCG(ideal=pool)@3",
    "nDCG(ideal=pool)",
    "nDCG(gain=linear,ideal=pool,jk=3)@20",
    "nDCG@200",
    "nDCG(undefined=zero)@3",
    "Judged(undefined=zero)@3",
    "ClickShare(undefined=zero)",
    "Novelty(undefined=zero)",
    "ERR(max_grade=4)",
    "ERR(discount=log2)@4",
    "SetE(stress=recall,b=2)",
    "SetF(beta=0.5)",
    "Utility(a=2,b=-1,c=-0.5,d=0.25)",
    "Clicks@2",
    "alpha_nDCG(alpha=0.3)@5",
    "alpha_nDCG(alpha=1,rel=2)",
    "ERR_IA(alpha=0)@4",
    "IPS-P(rel=2)",
    "IPS-DCG(gain=linear,jk=2)@4",
)
"""Names with other settings than the defaults."""


CUTOFFS: Final = {"rank": ("@3", ""), "recall": ("@0.5",), "none": ("",)}
"""Cut-offs to append to the name of a family, by `Entry.cutoff`."""


def family_names(family: str, entry: Entry) -> list[str]:
    """Names of a family with its default settings, one for each kind of cut-off that it takes."""
    required = [f"{key}={p.default}" for key, p in entry.parameters.items() if p.required]
    brackets = f"({','.join(required)})" if required else ""
    return [f"{family}{brackets}{cutoff}" for cutoff in CUTOFFS[entry.cutoff]]


def every_metric() -> Iterator[tuple[str, Metric]]:
    """(family, metric): every family with its default settings, cut at 3 and not cut where it takes
    @k, and `VARIANTS`."""
    names = [name for family, entry in CATALOG.items() for name in family_names(family, entry)]
    for name in (*names, *VARIANTS):
        metric = parse(name, max_grade=MAX_GRADE)
        yield metric.name.partition("(")[0].partition("@")[0], metric


def random_rows(
    rng: np.random.Generator, count: int, depth: int, *, halves: bool = False
) -> list[Plain]:
    """Lists of 0 to `depth` items, some unjudged, none to all relevant; some judged, not shown."""
    return [_random_row(rng, depth, halves) for _ in range(count)]


def _random_row(rng: np.random.Generator, depth: int, halves: bool) -> Plain:
    length = int(rng.integers(0, depth + 1))
    generous = rng.choice([0.0, 0.2, 0.5, 1.0])
    steps = 2 if halves else 1
    drawn = rng.integers(0, MAX_GRADE * steps + 1, length) / steps
    grades = [
        None if rng.random() < 0.2 else float(grade * (rng.random() < generous)) for grade in drawn
    ]
    missed = [float(grade) for grade in rng.integers(0, MAX_GRADE + 1, int(rng.integers(0, 5)))]
    pool = [grade for grade in grades if grade is not None] + missed
    subtopics = int(rng.integers(1, 12))
    of_all = rng.integers(0, MAX_GRADE + 1, (length + len(missed), subtopics))
    of_all = of_all * (rng.random(of_all.shape) < 0.3 * generous)
    known = [bool(flag) for flag in rng.random(length) < 0.4]
    shown_known = sum(flag and (grade or 0) >= 1 for flag, grade in zip(known, grades))
    return Plain(
        grades=grades,
        pool=[float(grade) for grade in rng.permutation(pool)],
        collection=length + len(missed) + int(rng.integers(0, 50)),
        known=known,
        known_relevant=shown_known + int(rng.integers(0, 3)),
        weights=_weights(rng, depth),
        subtopics=of_all[:length].tolist(),
        pool_subtopics=rng.permutation(of_all).tolist(),
        first_feedback_s=None if rng.random() < 0.5 else float(rng.exponential(20.0)),
    )


def _weights(rng: np.random.Generator, depth: int) -> list[float] | None:
    """Weights for one rank more than a list can have, never decreasing; sometimes unknown."""
    weights: list[float] = np.minimum(1 / (1 - 0.1 * np.arange(depth + 1)).clip(0.05), 8.0).tolist()
    return None if rng.random() < 0.2 else weights
