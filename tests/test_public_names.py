"""All that others may build on: series with labels, settings, commands with options, JSON keys and
paths. What leaves public_names.txt is a breaking change, which CHANGELOG.md names.

    python -m tests.test_public_names    # writes the list anew
"""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import click

from relevanced.daemon.commands.cli import cli
from relevanced.daemon.config import SETTINGS
from relevanced.daemon.http import ROUTES, openapi
from relevanced.daemon.telemetry import FAMILIES

ROOT: Final = Path(__file__).parent.parent
LIST: Final = ROOT / "tests" / "public_names.txt"


def series() -> Iterator[str]:
    for family in FAMILIES.values():
        yield f"series {family.name} {' '.join(family.labels)}"


def settings() -> Iterator[str]:
    for setting in SETTINGS:
        yield f"setting {setting.key}"


def commands(command: click.Command, name: str) -> Iterator[str]:
    flags = [flag for parameter in command.params for flag in parameter.opts if flag[0] == "-"]
    yield f"command {name} {' '.join(sorted(flags))}"
    if isinstance(command, click.Group):
        with click.Context(command) as context:
            for each in command.list_commands(context):
                if (found := command.get_command(context, each)) is not None:
                    yield from commands(found, f"{name} {each}")


def answers() -> Iterator[str]:
    document = json.loads(openapi.document("1", ROUTES))
    for path, operations in document["paths"].items():
        parameters = {one["name"] for of in operations.values() for one in of.get("parameters", ())}
        yield f"path {path} {' '.join(sorted(parameters))}"
    for name, schema in document["components"]["schemas"].items():
        yield f"json {name} {' '.join(sorted(schema.get('properties', ())))}"


def lines() -> list[str]:
    """One for each thing that has a name, with the names inside it."""
    of_program = (*series(), *settings(), *commands(cli, "relevanced"), *answers())
    return sorted(line.rstrip() for line in of_program)


def names(listed: list[str]) -> set[tuple[str, str, str]]:
    """(kind, name, name inside it or "") of the lines."""
    found = set[tuple[str, str, str]]()
    for line in listed:
        kind, *words = line.split(" ")
        outer = (
            [word for word in words if not word.startswith("-")] if kind == "command" else words[:1]
        )
        inner = words[len(outer) :]
        found |= {(kind, " ".join(outer), name) for name in ("", *inner)}
    return found


def unsaid(before: list[str], now: list[str], changes: str) -> list[tuple[str, str, str]]:
    """What left the list, and is not named by the changes."""
    gone = names(before) - names(now)
    return sorted(one for one in gone if f"`{one[2] or one[1]}`" not in changes)


def test_list_is_that_of_the_program_and_what_left_is_in_the_changes() -> None:
    listed = LIST.read_text().splitlines()
    assert not unsaid(listed, lines(), (ROOT / "CHANGELOG.md").read_text())
    assert listed == lines(), "python -m tests.test_public_names writes the list anew"


def test_a_name_that_leaves_is_found_until_the_changes_say_it() -> None:
    before, now = ["series a x y", "command r run --old"], ["series a x", "command r run"]
    assert unsaid(before, now, "") == [("command", "r run", "--old"), ("series", "a", "y")]
    assert unsaid(before, now, "Renamed `y`; `--old` is gone.") == []


if __name__ == "__main__":
    LIST.write_text("".join(f"{line}\n" for line in lines()))
