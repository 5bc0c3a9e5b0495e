"""`relevanced queries`: the queries of a window, as a running daemon has them."""

from urllib.parse import urlencode

import click

from ..exporter.query_windows import WINDOWS
from ..http.api.queries import ALLOWED_ORDERS, MOST_ROWS, PATH
from ..http.api.query_rows import Queries
from . import options
from .asking import DEFAULT_URL, daemon_at
from .query_table import query_table


@click.command("queries")
@click.option(
    "--url", help=f"Address at which the daemon serves its scores.  [default: {DEFAULT_URL}]"
)
@options.config_option("Ask at the address of this configuration's http.listen instead.", None)
@click.option(
    "--window",
    type=click.Choice([*WINDOWS]),
    default="24h",
    show_default=True,
    help="The last hours that have settled; now: the open hour so far.",
)
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
@options.output_option("How the queries are printed.", "table", "json", "csv")
def queries_command(
    url: str | None,
    config_file: str | None,
    window: str,
    order: str,
    metric: str | None,
    segment: str | None,
    limit: int,
    output: str,
) -> None:
    """Print the queries of a window: the most frequent ones, the worst, those without results, or
    those that lost or gained most.

    Needs [queries] in the daemon's configuration.
    """
    given = {"window": window, "order": order, "limit": limit}
    given |= {"metric": metric} if metric is not None else {}
    given |= {"segment": segment} if segment is not None else {}
    daemon, asked = daemon_at(url, config_file), f"?{urlencode(given)}"
    if output == "table":
        click.echo(query_table(daemon.fetched(PATH + asked, Queries)), nl=False)
    else:
        text = daemon.text(f"{PATH}.csv{asked}" if output == "csv" else PATH + asked)
        click.echo(text.removesuffix("\n"))
