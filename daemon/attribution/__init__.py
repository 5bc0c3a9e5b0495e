"""The rules of the join: which impression an event belongs to and what it changes; pure, and
nothing here knows how state is stored.
"""

from . import columns, join_rules, last_touch, runs, vectorized
from .columns import slice_of
from .id_scanning import (
    NO_RANK,
    NOT_PLAIN,
    LoggedRecords,
    as_stored,
    cut_to,
    lengths_of,
    queries_of,
    ranks0_of,
    respelled,
)
from .list_changes import PageMismatch, extended_list, list_with_item
from .rekeyed import Messages
from .runs import Aside, Part, Run, Single, read_runs

__all__ = (
    "Aside",
    "as_stored",
    "columns",
    "cut_to",
    "extended_list",
    "join_rules",
    "last_touch",
    "lengths_of",
    "LoggedRecords",
    "Messages",
    "NO_RANK",
    "NOT_PLAIN",
    "PageMismatch",
    "Part",
    "list_with_item",
    "queries_of",
    "ranks0_of",
    "read_runs",
    "respelled",
    "Run",
    "runs",
    "Single",
    "slice_of",
    "vectorized",
)
