"""The routes whose answers are made of tables of queries. Pure."""

from collections.abc import Mapping
from typing import Final, NamedTuple

import msgspec

from . import judged_missing, queries
from .parameters import Parameter
from .query_rows import Queries, QueryDetail, QueryHour, QueryRow


class TableRoute(NamedTuple):
    """A route: its answer is JSON, or a part of it as CSV."""

    summary: str
    answer: type[msgspec.Struct]
    rows: str
    """The attribute of the answer that is a table."""
    row: type[msgspec.Struct]
    parameters: tuple[Parameter, ...]
    off: str
    """What is not so where the status is 404."""


OFF: Final = "No queries are kept."
TABLES: Final[Mapping[str, TableRoute]] = {
    queries.PATH: TableRoute(
        "Queries of a window: by searches, without results, and what lost or gained most.",
        Queries,
        "rows",
        QueryRow,
        queries.PARAMETERS,
        OFF,
    ),
    queries.DETAIL_PATH: TableRoute(
        "One query by hour, and its searches that scored worst as they were shown.",
        QueryDetail,
        "hours",
        QueryHour,
        queries.DETAIL_PARAMETERS,
        OFF,
    ),
    judged_missing.PATH: TableRoute(
        "Items that were shown most for judged queries and are not judged.",
        judged_missing.UnjudgedItems,
        "rows",
        judged_missing.UnjudgedItem,
        judged_missing.PARAMETERS,
        "Items without a judgement are not counted.",
    ),
}
"""By path."""
