"""`relevanced queries`: the queries of a window, as a running daemon has them."""

from typing import Final

import click

from ..http.api.queries import ALLOWED_ORDERS, DETAIL_PATH, MOST_ROWS, PATH
from ..http.api.query_rows import Queries, QueryDetail
from ..queries.classes import Share
from . import options
from .asking import daemon_at, url_option, window_option
from .query_classes import classes_csv, shares_option
from .query_table import detail_text, query_table

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
        click.echo(daemon.printed(PATH, given, output, Queries, query_table))


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
