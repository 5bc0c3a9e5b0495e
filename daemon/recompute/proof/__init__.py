"""Stored lanes against what their logs prove: the sink of `verify`, and what it says."""

from . import queries
from .lanes import BY_FILES, Proof
from .outcomes import Outcome, as_json, as_text, exit_code, not_provable
from .rows import AHEAD, NO_DIRECTORY, NOT_PROVABLE, Grading, grading_of
from .stored import (
    NOT_COUNTED,
    StoredLane,
    begin_of,
    names_of,
    query_keys_of,
    stored_lane,
    watermark_of,
)

__all__ = (
    "AHEAD",
    "as_json",
    "as_text",
    "begin_of",
    "BY_FILES",
    "exit_code",
    "Grading",
    "grading_of",
    "names_of",
    "NO_DIRECTORY",
    "NOT_COUNTED",
    "NOT_PROVABLE",
    "not_provable",
    "Outcome",
    "Proof",
    "queries",
    "query_keys_of",
    "stored_lane",
    "StoredLane",
    "watermark_of",
)
