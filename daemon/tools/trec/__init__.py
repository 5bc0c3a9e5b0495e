"""TREC run files scored against judgements, and the report of that."""

from .asked_metrics import DEFAULT_METRICS, Undefined, UnknownMetrics, asked_metrics
from .formats import (
    Qrels,
    Result,
    RunFile,
    TrecError,
    apparent_kind,
    parse_known,
    parse_qrels,
    parse_run,
    parse_subtopics,
)
from .report import WRITERS, EvaluationReport
from .results import (
    EvaluationError,
    Missing,
    Negative,
    Policies,
    RunComparison,
    ScoredRun,
    Ties,
    align_run,
    compare_runs,
    coverage_remarks,
    ordered_items,
    score_run,
)

__all__ = (
    "align_run",
    "apparent_kind",
    "asked_metrics",
    "compare_runs",
    "coverage_remarks",
    "DEFAULT_METRICS",
    "EvaluationError",
    "EvaluationReport",
    "Missing",
    "Negative",
    "ordered_items",
    "parse_known",
    "parse_qrels",
    "parse_run",
    "parse_subtopics",
    "Policies",
    "Qrels",
    "Result",
    "RunComparison",
    "RunFile",
    "score_run",
    "ScoredRun",
    "Ties",
    "TrecError",
    "Undefined",
    "UnknownMetrics",
    "WRITERS",
)
