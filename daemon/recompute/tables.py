"""Scores and lists of queries as CSV, lines of JSON and tables for a terminal. Pure.

A row is a mapping of what is printed, in that order. What judgements score is another measure, also
where a metric has the same name: hence `judged_metric`.
"""

import io
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, TypeAlias

import msgspec
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table
from rich.text import Text

from relevanced.metrics import Floats

from ..changes import sentences
from ..http import (
    UNLISTED,
    WITHOUT_QUERY,
    Queries,
    QueryDetail,
    QueryExample,
    QueryRow,
    QuerySums,
    UnlistedSums,
    table_text as csv_of,
    with_unlisted_rows,
)
from ..lane import Rows as Counters
from ..plan import Plan
from ..queries import SURE_ERRORS
from ..views import Segment, csv_text, estimates, optional

Row: TypeAlias = dict[str, Any]
FIELDS: Final = ("grouping", "segment", "metric", "mean", "stderr", "scored", "impressions")
"""`mean` is None where no impression has a defined value, `stderr` below two scored ones."""
JUDGED_FIELDS: Final = (
    "judged_metric",
    "best_case",
    "best_case_stderr",
    "items_share",
    "judgements",
)
"""The fields that only judged scores have; these have no `metric`."""
NOTHING_JUDGED = "By judgements: no file judges a query of these searches at their time."
NAMES: Final = ("start", "grouping", "segment")


def rows_of(
    rows: Counters | Floats, segments: Iterable[Segment], plan: Plan, **first: object
) -> Iterator[Row]:
    """A row for each segment that has an impression and each metric, from (segments, columns)."""
    columns = []
    for index, metric in enumerate(plan.metrics):
        means, errors = (optional(values) for values in estimates(rows, plan, index))
        columns.append((metric.name, means, errors, rows[:, plan.metric_column(index)]))
    for at, segment in enumerate(segments):
        if rows[at, 0]:
            for name, means, errors, scored in columns:
                counts = int(scored[at]), int(rows[at, 0])
                values = (*segment, name, means[at], errors[at], *counts)
                yield {**first, **dict(zip(FIELDS, values, strict=True))}


def judged(row: Row, **more: object) -> Row:
    """A row of a judged score."""
    return {"judged_metric" if name == "metric" else name: row[name] for name in row} | more


def judged_mean(row: Row) -> str:
    """The mean of a judged row for people, with its best case where that is another."""
    if row["mean"] is None:
        return "undefined"
    error = "" if row["stderr"] is None else f" ±{row['stderr']:.4f}"
    best_case = "" if row["best_case"] == row["mean"] else f" … {row['best_case']:.4f}"
    return f"{row['mean']:.4f}{error}{best_case}"


def as_csv(header: Iterable[str], rows: Iterable[Row]) -> str:
    """A header, and a line for each row; what is None or absent is an empty field."""
    names = tuple(dict.fromkeys(header))
    return csv_text(names, ([row.get(name) for name in names] for row in rows))


def as_json_lines(rows: Iterable[Row]) -> str:
    """A JSON object a line."""
    return "".join(msgspec.json.encode(row).decode() + "\n" for row in rows)


def as_table(
    rows: Iterable[Row],
    metrics: Iterable[str],
    mean: Callable[[Row], str],
    *,
    names: Sequence[str] = NAMES,
    counts: Mapping[str, Callable[[Row], str]],
    caption: str | None = None,
    title: Text | None = None,
) -> Table:
    """A line for each bucket and segment, and a column for each metric. `counts`: columns before
    these."""
    lines: dict[tuple[str, ...], list[Row]] = {}
    for row in rows:
        lines.setdefault(tuple(row[name] for name in names), []).append(row)
    note = None if caption is None else Text(caption)
    table = Table(
        box=SIMPLE_HEAD, title=title, title_justify="left", caption=note, caption_justify="left"
    )
    for name in names:
        table.add_column(name, no_wrap=True)
    for name in (*counts, *metrics):
        table.add_column(Text(name), justify="right", no_wrap=True)
    for line, of_metrics in lines.items():
        first = of_metrics[0]
        at, *others = (sentences.printable(name) for name in line)
        cells = (at + ("" if first.get("settled", True) else " *"), *others)
        numbers = [count(first) for count in counts.values()]
        table.add_row(*map(Text, (*cells, *numbers, *map(mean, of_metrics))))
    return table


_UNBOUNDED = 10_000


IN_CSV: Final = "--output csv has all"
"""Where a replay has the rows that follow."""


def query_text(found: Queries, output: str) -> str:
    """The queries of a replay as `table`, `json` or `csv`."""
    if output == "json":
        return msgspec.json.encode(found).decode() + "\n"
    if output == "csv":
        return csv_of(with_unlisted_rows(found), "rows", QueryRow).decode()
    return query_table(found, more=IN_CSV)


def query_table(found: Queries, more: str = "--limit") -> str:
    """The rows of an answer, what they leave out, and what is to be said of them. `more`: how to
    see the rows that follow."""
    numbers = ("searches", "no result", "scored", found.metric, "usual", "lost", "at least")
    return table_text(_title(found), ("query",), numbers, _rows(found), _notes(found, more))


def _rows(found: Queries) -> Iterator[Sequence[str]]:
    for row in found.rows:
        yield sentences.printable(row.query), *_cells(row, gained=found.order == "gained")
    for name, sums in (
        (WITHOUT_QUERY, found.none),
        (f"(rare: fewer than {found.min_users} users)", found.rare),
        (UNLISTED, found.other),
        ("all", found.whole),
    ):
        if isinstance(sums, UnlistedSums):
            yield name, *_cells(sums, gained=found.order == "gained")
        elif sums is not None:
            yield name, *_sum_cells(sums)


def table_text(
    title: str,
    texts: Sequence[str],
    numbers: Sequence[str],
    rows: Iterable[Sequence[str]],
    notes: Iterable[str],
) -> str:
    """A table with columns of texts and of numbers, and lines below it."""
    console = Console(file=io.StringIO(), width=_UNBOUNDED, force_terminal=False)
    table = Table(box=SIMPLE_HEAD)
    for name in texts:
        table.add_column(name)
    for name in numbers:
        table.add_column(name, justify="right")
    for row in rows:
        table.add_row(*row)
    with console.capture() as capture:
        console.print(title, markup=False, highlight=False)  # that of a table has its width
        console.print(table, markup=False)
        for line in notes:
            console.print(line, markup=False, highlight=False)
    return "".join(line.rstrip() + "\n" for line in capture.get().split("\n")).rstrip() + "\n"


def detail_text(found: QueryDetail) -> str:
    """One query by hour, and its examples."""
    query = sentences.printable(found.query)
    if not found.shown:
        return f"{query}: is not listed in these hours, or by fewer users than queries.min_users\n"
    where = "" if found.segment is None else f", segment {sentences.printable(found.segment)}"
    numbers = ("searches", "no result", "with feedback", "scored", found.metric)
    rows = (
        (
            hour.start,
            _count(hour.impressions),
            _count(hour.zero_result_impressions),
            _count(hour.impressions_with_feedback),
            _count(hour.scored),
            _mean(hour.mean, None),
        )
        for hour in found.hours
        if hour.impressions
    )
    by_hour = table_text(f"{query}{where}, by hour", ("hour",), numbers, rows, _detail_notes(found))
    return by_hour + examples_text({found.query: found.examples})


def _detail_notes(found: QueryDetail) -> Iterator[str]:
    without = [hour for hour in found.hours if not hour.impressions]
    if without:
        most = max(hour.missing_at_most for hour in without)
        searches = f"at most {most:,} searches in each, not listed" if most else "no searches"
        yield f"{_counted(len(without), 'more hour')}: {searches}."
    missing = max((hour.missing_at_most for hour in found.hours if hour.impressions), default=0)
    if missing:
        yield f"Up to {missing:,} searches may be missing, at most in its hours."
    if found.lost_examples:
        lost = _counted(found.lost_examples, "hour")
        yield f"The examples of {lost} are missing: Redis lost them."


def examples_text(by_query: Mapping[str, Sequence[QueryExample]]) -> str:
    """Searches of queries as they were shown, a block for each."""
    lines: list[str] = []
    for query, examples in by_query.items():
        for one in examples:
            of = ", ".join(f"{name} {value}" for name, value in one.attributes.items())
            lines += [
                "",
                sentences.printable(
                    ", ".join([query, one.time, one.impression_id, *([of] * bool(of))])
                ),
            ]
            lines += [] if one.items else ["  no result"]
            for rank, (item, gain) in enumerate(zip(one.items, one.gains, strict=True), 1):
                name = "shown further up" if item is None else sentences.printable(item)
                lines.append(f"  {rank:>2}. {name}" + (f"  <- gain {gain:g}" if gain else ""))
    return "".join(f"{line}\n" for line in lines)


def _title(found: Queries) -> str:
    where = "" if found.segment is None else f", segment {sentences.printable(found.segment)}"
    return f"queries by {found.order}{where}, {found.from_} to {found.until}"


def _cells(row: QueryRow | UnlistedSums, *, gained: bool) -> Iterator[str]:
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


def _counted(count: int, what: str) -> str:
    return f"{count:,} {what}{'' if count == 1 else 's'}"


def _mean(mean: float | None, stderr: float | None) -> str:
    if mean is None:
        return ""
    return f"{mean:.4f}" if stderr is None else f"{mean:.4f} ± {stderr:.4f}"


def _notes(found: Queries, more: str) -> Iterator[str]:
    missing = max((row.missing_at_most for row in found.rows), default=0)
    if missing:
        yield f"Up to {missing:,} searches of a query may be missing, at most in its hours."
    if found.unlisted_at_most:
        yield f"A query that is not listed has at most {found.unlisted_at_most:,} searches."
    if found.lost_hours:
        why = "Redis lost it, or a partition went quiet"
        yield f"A part of {found.lost_hours} hours is missing: {why}."
    if found.order in ("lost", "gained") and not found.usual_days:
        yield "Nothing is usual yet: that needs the same hours of a day before."
    if any(row.sure for row in found.rows):
        yield f"! passes {SURE_ERRORS:g} errors: by chance one query in two to four hours does."
    if found.carried_at_least is not None and found.carried_at_most is not None:
        bounds = (found.carried_at_least, found.carried_at_most)
        parts = dict.fromkeys(f"{min(max(part, 0.0), 1.0):.0%}" for part in bounds)
        yield f"The first ten carry {' to '.join(parts)} of the change of all."
    if left := more_text(found, more):
        yield left


def more_text(found: Queries, more: str = "--limit") -> str:
    """How many rows follow those of the first page, and how to see them; "" where none do."""
    left = found.listed - len(found.rows)
    return "" if found.next is None else f"{left:,} more: {more}"


def title_of(name: str) -> Text:
    """Of a table of what one file graded."""
    return Text(f"by judgements: {sentences.printable(name)}")


def judged_note(depth: int) -> str:
    """What its column `judged` is, and a second number beside a score."""
    share = f"judged: share of the first {depth} places whose item is judged"
    return f"{share}; …: the score if the other items were as good as judged ones."


def share_text(share: float | None) -> str:
    """How much of the first places is judged."""
    return "–" if share is None else f"{share:.1%}"
