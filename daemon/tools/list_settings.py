"""`relevanced settings`: every setting with its kind, default and meaning, as TOML."""

import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any, Final

import click

from ..config import (
    JOIN,
    SECTIONS,
    SETTINGS,
    Kind,
    derive,
    experiments,
    fields_of,
    propensities,
    source_checks,
    source_keys,
)

WIDTH: Final = 100
NAMED: Final = (
    ("experiments.NAME", experiments.DeclaredExperiment),
    ("propensities", propensities.DeclaredPropensities),
    ("propensities.tables.NAME", propensities.DeclaredTable),
    (derive.SECTION, derive.DeclaredDerivation),
    ("sources", source_keys.SourceKeys),
    ("sources.impression", source_keys.ImpressionKeys),
    ("sources.feedback", source_keys.FeedbackKeys),
    ("sources.drop", source_keys.DropKeys),
)
"""The sections that are absent by default: their names, or their being there, say something."""

_RESTARTING: Final = (source_checks.SECTION,)
_ARRAYS: Final = (derive.SECTION, source_checks.SECTION, "sources.drop")
"""The sections that are arrays of tables."""


@dataclass(frozen=True)
class SettingRow:
    """One setting."""

    section: str
    name: str
    kind: Kind[Any]
    default: object
    meaning: str
    restarts: bool
    variable: str | None
    """None in sections that are absent by default."""

    @property
    def key(self) -> str:
        """`section.name`"""
        return f"{self.section}.{self.name}" if self.section else self.name

    @property
    def written(self) -> str | None:
        """The default as TOML; None where there is none."""
        return None if self.default is None else self.kind.write(self.kind.read(self.default))


@click.command("settings")
@click.argument("keys", nargs=-1, metavar="[KEY]...")
@click.option("--markdown", is_flag=True, help="Print a table in Markdown instead.")
def settings_command(keys: Sequence[str], markdown: bool) -> None:
    """List every setting as commented TOML, or those whose name contains a KEY.

    The output is a configuration with every default. What has no default is a comment.
    """
    found = [row for row in rows() if not keys or any(key in row.key for key in keys)]
    if not found:
        raise click.BadArgumentUsage(f"{', '.join(keys)}: no setting has this in its name")
    click.echo("\n".join(table(found) if markdown else toml(found)))


def rows() -> Iterator[SettingRow]:
    """Every setting, in the order of the file."""
    for one in SETTINGS:
        of_file = (one.section, one.name, one.kind, one.default, one.help_text)
        yield SettingRow(*of_file, one.shapes == JOIN, one.variable)
    for section, owner in NAMED:
        for name, entry in fields_of(owner).items():
            given = entry.metadata
            of_file = (section, name, given["kind"], given["default"], given["help"])
            yield SettingRow(*of_file, section.startswith(_RESTARTING), None)


def toml(settings: Sequence[SettingRow]) -> Iterator[str]:
    """The lines of a configuration file with the defaults of these settings."""
    for section, of_section in groupby(settings, lambda row: row.section):
        absent = "# " if section in dict(NAMED) else ""
        if section:
            yield from (f"# {line}" for line in textwrap.wrap(_meaning(section), WIDTH - 2))
            yield f"{absent}[[{section}]]" if section in _ARRAYS else f"{absent}[{section}]"
            yield ""
        for row in of_section:
            effect = " A change starts a fresh namespace." if row.restarts else ""
            yield from (f"# {line}" for line in textwrap.wrap(row.meaning + effect, WIDTH - 2))
            yield f"# {row.kind.name}" + ("" if row.variable is None else f"; {row.variable}")
            unset = f"# {row.name} ="
            yield unset if row.written is None else f"{absent}{row.name} = {row.written}"
            yield ""


def _meaning(section: str) -> str:
    owner = dict(NAMED).get(section) or SECTIONS[section]
    return " ".join((owner.__doc__ or "").partition("\n\n")[0].split())


def table(settings: Sequence[SettingRow]) -> Iterator[str]:
    """The lines of a table in Markdown."""
    yield "| setting | default | kind | meaning |"
    yield "|---|---|---|---|"
    for row in settings:
        default = "" if row.written is None else f"`{row.written}`"
        cells = (f"`{row.key}`{' *' * row.restarts}", default, row.kind.name, row.meaning)
        yield "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"
