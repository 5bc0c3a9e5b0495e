"""`relevanced demo` on the command line."""

import sys
import tempfile

import click

from ..commands import options


@click.command("demo")
@click.option(
    "--port",
    type=click.IntRange(0, 65_535),
    default=9465,
    show_default=True,
    help="Port at which the web page and the scores are served.",
)
@click.option("--seed", default=1, show_default=True, help="The same seed gives the same users.")
@click.option(
    "--rate",
    type=click.IntRange(min=1),
    default=100,
    show_default=True,
    help="Events a second.",
)
@click.option(
    "--regression-after",
    type=options.duration,
    default="20s",
    show_default=True,
    help="Time until the ranking of one country gets worse, once the history is read.",
)
@click.option(
    "--repair-after",
    type=options.duration,
    default="6m",
    show_default=True,
    help="Time from then until it is repaired; 0s: never.",
)
@click.option(
    "--duration",
    type=options.duration,
    help="How long the demo runs.  [default: until interrupted]",
)
def demo_command(
    port: int,
    seed: int,
    rate: int,
    regression_after: int,
    repair_after: int,
    duration: int | None,
) -> None:
    """Try it all on simulated traffic, with nothing else installed."""
    from ..telemetry import logs
    from .demonstration import demo

    tempfile.gettempdir()  # raises where there is none: Valkey's error is followed by another
    logs.configure("warning", "auto", sys.stderr)
    code = demo(
        port=port,
        seed=seed,
        rate=rate,
        regression_after_s=regression_after // 1000,
        repair_after_s=repair_after // 1000 or None,
        max_seconds=None if duration is None else duration // 1000,
    )
    sys.exit(code)
