"""`relevanced queries`: the queries of a window, as a running daemon has them; with `--classes`, a
file of classes from what it has counted.
"""

from collections.abc import Iterator
from functools import partial
from typing import Final
from urllib.parse import urlencode

import click

from ..http import ALLOWED_ORDERS, DETAIL_PATH, MOST_ROWS, QUERIES_PATH, Queries, QueryDetail
from ..queries import HASHED, OutOfReach, Share, classed_queries, shares_of
from ..recompute.tables import detail_text, more_text, query_table, query_text
from ..views import csv_text
from . import options
from .daemon_client import Daemon, daemon_at, url_option, window_option


def shares_option(text: str) -> list[Share]:
    """The value of the option. Raises click.BadParameter."""
    try:
        return shares_of(text)
    except ValueError as error:
        raise click.BadParameter(str(error)) from None


def classes_csv(daemon: Daemon, window: str, shares: list[Share]) -> str:
    """The queries of a window as CSV with the columns `query` and `class`. Raises
    click.ClickException where the daemon does not answer, or does not know enough of them."""
    first = _answer(daemon, window, None)
    if first.text == HASHED:
        raise click.ClickException(
            "queries.text = hashed: only hashes of the queries are stored, and no search has a hash"
        )
    assert first.whole is not None
    searches = first.whole.impressions - first.none.impressions
    if not searches:
        raise click.ClickException(f"no search with a query has settled in {window}")
    try:
        classed = classed_queries(_counts(daemon, window, first), searches, shares)
        return csv_text(("query", "class"), classed, exact=True)
    except OutOfReach as error:
        raise click.ClickException(_out_of_reach(error, first, searches)) from None


def _counts(daemon: Daemon, window: str, answer: Queries) -> Iterator[tuple[str, int]]:
    """(query, searches) of all pages of the list."""
    while True:
        for row in answer.rows:
            assert row.impressions is not None
            yield row.query, row.impressions
        if answer.next is None:
            return
        answer = _answer(daemon, window, answer.next)


def _answer(daemon: Daemon, window: str, cursor: str | None) -> Queries:
    given = {"window": window, "order": "impressions", "limit": str(MOST_ROWS)}
    given |= {} if cursor is None else {"cursor": cursor}
    return daemon.fetched(f"{QUERIES_PATH}?{urlencode(given)}", Queries)


def _out_of_reach(error: OutOfReach, found: Queries, searches: int) -> str:
    assert found.other is not None
    other, rare = found.other.impressions / searches, found.rare.impressions / searches
    return (
        f"{error.name}={error.asked:g}: the queries that are shown carry {error.reached:.1%} of the"
        f" searches, {rare:.1%} are of queries of fewer than {found.min_users} users and"
        f" {other:.1%} of queries beyond the {found.listed:,} that are listed: ask for less, or"
        " raise queries.kept"
    )


CLASSES_WINDOW: Final = "7d"


@click.command("queries")
@url_option
@options.config_option("Ask at the address of this configuration's http.listen instead.", None)
@window_option
@click.option(
    "--order",
    type=click.Choice(ALLOWED_ORDERS),
    default="impressions",
    show_default=True,
    help="By which they are listed. lost, gained: against the same hours of seven days.",
)
@click.option("--metric", help="The metric.  [default: the first one]")
@click.option("--segment", help="Only in this segment of the grouping queries.by.")
@click.option(
    "--limit", type=click.IntRange(1, MOST_ROWS), default=50, show_default=True, help="Most rows."
)
@click.option(
    "--classes",
    type=shares_option,
    metavar="CLASS=SHARE,...",
    help="Print the most frequent queries instead, as a file of classes for [[derive]]: head=0.3 is"
    " those that carry 30% of the searches of the window. Each share includes the classes before"
    " it.",
)
@click.option(
    "--query",
    help="Print this one by hour, and searches for it as they were shown, with what was clicked.",
)
@options.output_option("How the queries are printed.", "table", "json", "csv")
def queries_command(
    url: str | None,
    config_file: str | None,
    window: str,
    order: str,
    metric: str | None,
    segment: str | None,
    limit: int,
    classes: list[Share] | None,
    query: str | None,
    output: str,
) -> None:
    """Print the queries of a window: the most frequent ones, the worst, those without results, or
    those that lost or gained most. With --query, one of them by hour.

    Needs [queries] in the daemon's configuration.
    """
    if classes is not None:
        found = classes_csv(daemon_at(url, config_file), _window_of_classes(), classes)
        click.echo(found, nl=False)
        return
    if query is not None:
        _refuse_of_lists()
    daemon, given = daemon_at(url, config_file), {"window": window}
    given |= {"metric": metric} if metric is not None else {}
    given |= {"segment": segment} if segment is not None else {}
    if query is not None:
        given |= {"query": query}
        click.echo(daemon.printed(DETAIL_PATH, given, output, QueryDetail, detail_text))
    else:
        given |= {"order": order, "limit": str(limit)}
        csv = partial(query_text, output="csv")
        daemon.print_list(QUERIES_PATH, given, output, Queries, query_table, csv, more_text)


def _refuse_of_lists() -> None:
    """Raise click.UsageError for options that say nothing about one query."""
    context = click.get_current_context()
    for name in ("order", "limit"):
        if context.get_parameter_source(name) is not click.core.ParameterSource.DEFAULT:
            raise click.UsageError(f"--{name}: not together with --query")


def _window_of_classes() -> str:
    """The window of a file of classes: 7d unless another one is given. Raises click.UsageError for
    options that say nothing about classes."""
    context = click.get_current_context()
    given = [
        name
        for name in context.params
        if context.get_parameter_source(name) is not click.core.ParameterSource.DEFAULT
    ]
    for name in ("order", "metric", "segment", "limit", "query", "output"):
        if name in given:
            raise click.UsageError(f"--{name} has no effect beside --classes")
    return str(context.params["window"]) if "window" in given else CLASSES_WINDOW
