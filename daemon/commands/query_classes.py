"""`relevanced queries --classes`: a file of classes from what a running daemon has counted."""

import csv
import io
from collections.abc import Iterator
from urllib.parse import urlencode

import click

from ..http.api.queries import MOST_ROWS, PATH
from ..http.api.query_rows import Queries
from ..queries.classes import OutOfReach, Share, classed, shares_of
from ..queries.plan import HASHED
from .asking import Daemon


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
    file = io.StringIO()
    rows = csv.writer(file, lineterminator="\n")
    rows.writerow(("query", "class"))
    try:
        rows.writerows(classed(_counts(daemon, window, first), searches, shares))
    except OutOfReach as error:
        raise click.ClickException(_out_of_reach(error, first, searches)) from None
    return file.getvalue()


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
    return daemon.fetched(f"{PATH}?{urlencode(given)}", Queries)


def _out_of_reach(error: OutOfReach, found: Queries, searches: int) -> str:
    assert found.other is not None
    other, rare = found.other.impressions / searches, found.rare.impressions / searches
    return (
        f"{error.name}={error.asked:g}: the queries that are shown carry {error.reached:.1%} of the"
        f" searches, {rare:.1%} are of queries of fewer than {found.min_users} users and"
        f" {other:.1%} of queries beyond the {found.listed:,} that are listed: ask for less, or"
        " raise queries.kept"
    )
