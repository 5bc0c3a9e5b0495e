"""`relevanced metrics`: every metric with its meaning, or some of them in full."""

import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from itertools import chain, repeat

import click
import msgspec

from relevanced.metrics import CATALOG, NEEDS, Description, describe, descriptions, parse, split

from ..commands import options
from ..config import CARRIED

WIDTH = 100


@click.command("metrics")
@click.argument("names", nargs=-1, metavar="[NAME]...")
@options.output_option("How they are printed.", "table", "json")
def metrics_command(names: Sequence[str], output: str) -> None:
    """List the metrics that can be named, or explain each NAME: a family such as nDCG, or a name
    such as nDCG@10.

    Names that other tools use lead to the one that is used here.
    """
    found = [_described(name) for name in names] if names else list(descriptions())
    if output == "json":
        click.echo(msgspec.json.format(msgspec.json.encode([_plain(one) for one in found])))
    elif names:
        click.echo("\n\n".join("\n".join(_explained(one)) for one in found))
    else:
        click.echo("\n".join(_listed(found)))


def _described(name: str) -> Description:
    """The family of a name. Raises click's error with a suggestion for one that is not known."""
    try:
        family = split(name).family
        if family not in CATALOG:
            parse(name)
    except ValueError as error:
        raise click.BadArgumentUsage(str(error)) from None
    return describe(family)


def _plain(found: Description) -> dict[str, object]:
    return {**asdict(found), "live": _is_live(found)}


def _is_live(found: Description) -> bool:
    return parse(found.example).refusal(CARRIED) is None


def _listed(found: Sequence[Description]) -> Iterator[str]:
    width = max(len(one.example) for one in found)
    for title, live in (
        ("Of live traffic and of judged runs:", True),
        ("Of judged runs only (relevanced eval): they need more than an impression has", False),
    ):
        yield title
        for one in found:
            if _is_live(one) == live:
                yield f"  {one.example:{width}}  {one.better:7}  {one.range:5}  {one.meaning}"
        yield ""
    yield "k, after the @, is any whole number; without it the whole list counts."
    yield "`relevanced metrics NAME` explains one of them."


def _explained(found: Description) -> Iterator[str]:
    better = "neither high nor low is better" if found.better == "neither" else None
    yield f"{found.family}, for example {found.example}"
    yield from _line("meaning", found.meaning)
    yield from _line("range", f"{found.range}, {better or f'{found.better} is better'}")
    yield from _line("needs", NEEDS[found.needs])
    yield from _line(
        "undefined", found.undefined if found.undefined == "never" else f"where {found.undefined}"
    )
    for title, (name, rule) in zip(chain(["parameters"], repeat("")), found.parameters.items()):
        yield from _line(title, f"{name}: {rule}")
    yield from _line("source", found.source)
    if found.other_names:
        yield from _line("also called", ", ".join(found.other_names))


def _line(title: str, text: str) -> Iterator[str]:
    lines = textwrap.wrap(text, WIDTH - 16)
    yield f"  {title:12}  {lines[0]}"
    yield from (f"{'':16}{line}" for line in lines[1:])
