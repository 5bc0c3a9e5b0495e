"""Search-quality metrics and experiment statistics: numpy over batches of result lists.

Pure: no clock, no I/O, no state.
"""

from .averages import Mean, geometric, macro
from .buckets import Buckets
from .catalog import CATALOG, parse
from .comparison import Comparison, compare
from .evaluate import Scores, evaluate, judged_lists
from .inference import ArmComparison, compare_arms
from .lists import Lists
from .metric import Entry, Metric, Parameter
from .sequences import Design

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
