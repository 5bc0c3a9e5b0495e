"""Stored lanes against what their logs prove: the sink of `verify`, and what it says."""

from . import queries
from .differences import LeftOut
from .files import NO_DIRECTORY, Classing, Files, Grading, classing_of, grading_of
from .lanes import ADMITTED_OTHERWISE, Proof
from .open_state import MOVED
from .outcomes import NEVER_COMPARED, Outcome, as_json, as_text, exit_code, not_provable
from .rows import AHEAD, NOT_PROVABLE
from .stored import (
    NOT_COUNTED,
    StoredLane,
    WriterValues,
    begin_of,
    query_keys_of,
    stored_lane,
    writer_keys,
)

__all__ = (
    "ADMITTED_OTHERWISE",
    "AHEAD",
    "as_json",
    "as_text",
    "begin_of",
    "Classing",
    "classing_of",
    "exit_code",
    "Files",
    "Grading",
    "grading_of",
    "LeftOut",
    "MOVED",
    "NEVER_COMPARED",
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
    "writer_keys",
    "WriterValues",
)
