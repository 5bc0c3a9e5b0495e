"""Renews the tables in the documents that are made from the code: `make tables`."""

from collections.abc import Callable
from pathlib import Path
from typing import Final

from relevanced.daemon.commands.list_settings import rows, table
from relevanced.metrics.descriptions import markdown

ROOT: Final = Path(__file__).parent.parent
HEADER: Final = "\n| "


def settings() -> str:
    """The table of all settings."""
    return "\n".join(table(list(rows()))) + "\n"


TABLES: Final[tuple[tuple[str, str, Callable[[], str]], ...]] = (
    ("metrics/README.md", "## Metrics", markdown),
    ("deploy/settings.md", "# Settings", settings),
)
"""(document, heading of the section whose first table is made, what makes it)."""


def renewed(text: str, heading: str, table_text: str) -> str:
    """The document with this table in place of the first one below the heading."""
    start = text.index(HEADER, text.index(f"{heading}\n")) + 1
    lines = text[start:].splitlines(keepends=True)
    rest = next((at for at, line in enumerate(lines) if not line.startswith("|")), len(lines))
    return text[:start] + table_text + "".join(lines[rest:])


def main() -> None:
    """Write the documents."""
    for name, heading, make in TABLES:
        document = ROOT / name
        document.write_text(renewed(document.read_text(), heading, make()))


if __name__ == "__main__":
    main()
