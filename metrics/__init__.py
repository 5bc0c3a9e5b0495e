"""Search-quality metrics: numpy over batches of result lists. No clock, no I/O, no state."""

from relevanced.metrics.averages import Mean, geometric, macro
from relevanced.metrics.buckets import Buckets
from relevanced.metrics.catalog import CATALOG, parse
from relevanced.metrics.comparison import Comparison, compare
from relevanced.metrics.evaluate import Scores, evaluate, judged_lists
from relevanced.metrics.inference import ArmComparison, compare_arms
from relevanced.metrics.lists import Lists
from relevanced.metrics.metric import Entry, Metric, Parameter
from relevanced.metrics.sequences import Design

__all__ = [
    "ArmComparison",
    "Buckets",
    "CATALOG",
    "Comparison",
    "Design",
    "Entry",
    "Lists",
    "Mean",
    "Metric",
    "Parameter",
    "Scores",
    "compare",
    "compare_arms",
    "evaluate",
    "geometric",
    "judged_lists",
    "macro",
    "parse",
]
