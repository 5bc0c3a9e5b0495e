"""`relevanced judgements missing`: what to give to raters, as a running daemon has it."""

from collections.abc import Iterator

import click

from ...http.api.judged_missing import MOST_PAIRS, PATH, UnjudgedItems
from .. import options
from ..asking import daemon_at, url_option, window_option
from ..query_table import table_text, visible


@click.command("missing")
@url_option
@options.config_option("Ask at the address of this configuration's http.listen instead.", None)
@window_option
@click.option(
    "--limit",
    type=click.IntRange(1, MOST_PAIRS),
    default=1000,
    show_default=True,
    help="Most rows.",
)
@options.output_option("How the items are printed.", "table", "json", "csv")
def missing_command(
    url: str | None, config_file: str | None, window: str, limit: int, output: str
) -> None:
    """Print the items that were shown most for judged queries and are not judged.

    The CSV has an empty column `rating`: filled in, it is a file of judgements. Needs
    judgements.missing = true in the daemon's configuration.
    """
    daemon, given = daemon_at(url, config_file), {"window": window, "limit": str(limit)}
    click.echo(daemon.printed(PATH, given, output, UnjudgedItems, missing_table))


def missing_table(found: UnjudgedItems) -> str:
    """The rows of an answer, what they leave out, and what is to be said of them."""
    rows = [(visible(row.query), visible(row.docid), f"{row.impressions:,}") for row in found.rows]
    rows += [
        (f"(rare: fewer than {found.min_users} users)", "", f"{found.rare:,}"),
        ("(other)", "", f"{found.other:,}"),
        ("all", "", f"{found.whole:,}"),
    ]
    title = f"items without a judgement, {found.from_} to {found.until}"
    return table_text(title, ("query", "item"), ("shown",), rows, _notes(found))


def _notes(found: UnjudgedItems) -> Iterator[str]:
    yield f"Of lists of judged queries, the first {found.depth:,} places."
    if not found.hours:
        yield "Not counted for a whole hour yet: ask again later, or for --window now."
    missing = max((row.missing_at_most for row in found.rows), default=0)
    if missing:
        yield f"Up to {missing:,} searches with an item may be missing, at most in its hours."
    if found.unlisted_at_most:
        times = "once" if found.unlisted_at_most == 1 else f"{found.unlisted_at_most:,} times"
        yield f"An item that is not listed was shown at most {times}."
    if found.lost_hours:
        yield f"{found.lost_hours} hours are missing: Redis lost them."
    if found.listed > len(found.rows):
        yield f"{found.listed - len(found.rows):,} more: --limit"
