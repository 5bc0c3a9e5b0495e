"""A list of queries as a table for a terminal. Pure."""

import io
from collections.abc import Iterator

import msgspec
from rich.console import Console
from rich.table import Table

from ..http.api.query_rows import Queries, QueryRow, QuerySums
from ..http.api.tables import table_text

_UNBOUNDED = 10_000


def query_text(found: Queries, output: str) -> str:
    """An answer as `table`, `json` or `csv`."""
    if output == "json":
        return msgspec.json.encode(found).decode() + "\n"
    if output == "csv":
        return table_text(found, "rows", QueryRow).decode()
    return query_table(found)


def query_table(found: Queries) -> str:
    """The rows of an answer, what they leave out, and what is to be said of them."""
    console = Console(file=io.StringIO(), width=_UNBOUNDED, force_terminal=False)
    table = Table(title=_title(found), title_justify="left")
    table.add_column("query")
    for name in ("searches", "no result", "scored", found.metric, "usual", "lost", "at least"):
        table.add_column(name, justify="right")
    for row in found.rows:
        table.add_row(_visible(row.query), *_cells(row, gained=found.order == "gained"))
    for name, sums in (
        ("(no query)", found.none),
        (f"(rare: fewer than {found.min_users} users)", found.rare),
        ("(other)", found.other),
        ("all", found.whole),
    ):
        if sums is not None:
            table.add_row(name, *_sum_cells(sums))
    with console.capture() as capture:
        console.print(table, markup=False)
        for line in _notes(found):
            console.print(line, markup=False, highlight=False)
    return "".join(line.rstrip() + "\n" for line in capture.get().split("\n")).rstrip() + "\n"


def _title(found: Queries) -> str:
    where = "" if found.segment is None else f", segment {_visible(found.segment)}"
    return f"queries by {found.order}{where}, {found.from_} to {found.until}"


def _cells(row: QueryRow, *, gained: bool) -> Iterator[str]:
    yield _count(row.impressions)
    yield _count(row.zero_result_impressions)
    yield _count(row.scored)
    yield _mean(row.mean, row.stderr)
    yield _mean(row.usual_mean, None)
    sign = -1 if gained else 1
    yield "" if row.lost is None else f"{sign * row.lost:.1f}"
    least = row.gained_at_least if gained else row.lost_at_least
    yield "" if least is None else f"{least:.1f}{' !' if row.sure else ''}"


def _sum_cells(sums: QuerySums) -> tuple[str, str, str, str]:
    return (
        _count(sums.impressions),
        _count(sums.zero_result_impressions),
        _count(sums.scored),
        _mean(sums.mean, None),
    )


def _count(count: int | None) -> str:
    return "" if count is None else f"{count:,}"


def _mean(mean: float | None, stderr: float | None) -> str:
    if mean is None:
        return ""
    return f"{mean:.4f}" if stderr is None else f"{mean:.4f} ± {stderr:.4f}"


def _notes(found: Queries) -> Iterator[str]:
    missing = max((row.missing_at_most for row in found.rows), default=0)
    if missing:
        yield f"Up to {missing:,} searches of a query may be missing, at most in its hours."
    if found.unlisted_at_most:
        yield f"A query that is not listed has at most {found.unlisted_at_most:,} searches."
    if found.lost_hours:
        yield f"{found.lost_hours} hours are missing: Redis lost them."
    if found.order in ("lost", "gained") and not found.usual_days:
        yield "Nothing is usual yet: that needs the same hours of a day before."
    if found.carried is not None:
        yield f"The first ten carry {found.carried:.0%} of the change of all."
    if found.next is not None:
        yield f"{found.listed - len(found.rows):,} more: --limit"


def _visible(text: str) -> str:
    """The text with control characters, which a terminal would act upon, as escapes."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)
