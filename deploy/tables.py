"""Renews the tables in the documents that are made from the code: `make tables`."""

import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from relevanced.daemon.http import ROUTES, openapi
from relevanced.daemon.tools.list_settings import SettingRow, rows
from relevanced.metrics import markdown

ROOT: Final = Path(__file__).parent.parent
HEADER: Final = "\n| "
CSV: Final = ".csv"
SOURCES: Final = "sources."
FILE: Final = "_file"


def settings() -> str:
    """The table of the settings outside of `[[sources]]`: of those with * a change restarts."""
    return _settings([row for row in rows() if not row.key.startswith(SOURCES)])


def sources() -> str:
    """The table of the keys of a source, as they are written below it."""
    found = [row for row in rows() if row.key.startswith(SOURCES)]
    return _settings([replace(r, section=r.section[len(SOURCES) :], restarts=False) for r in found])


def _settings(listed: Sequence[SettingRow]) -> str:
    """A row for those of one meaning; `[_file]` stands behind a secret that a file may give."""
    keys: dict[tuple[str, str], list[str]] = {}
    known = {row.key for row in listed}
    for row in listed:
        if row.key.endswith(FILE) and row.key.removesuffix(FILE) in known:
            continue
        default = row.kind.name if row.written is None else f"`{row.written}`"
        cells = (default, row.meaning + _choice(row))
        key = f"{row.key}[{FILE}]" if row.key + FILE in known else row.key
        keys.setdefault(cells, []).append(f"`{key}`{' *' * row.restarts}")
    lines = ["| setting | default, or kind | meaning |", "|---|---|---|"]
    for cells, named in keys.items():
        escaped = (cell.replace("|", "\\|") for cell in (", ".join(named), *cells))
        lines.append(f"| {' | '.join(escaped)} |")
    return "\n".join(lines) + "\n"


def _choice(row: SettingRow) -> str:
    """The values that can be chosen, where neither the kind nor the meaning names them."""
    values = row.kind.name.split(" | ")
    told = all(value.strip('"') in row.meaning for value in values)
    chosen = row.written is not None and '" | "' in row.kind.name
    return f" One of {row.kind.name}." if chosen and not told else ""


def paths() -> str:
    """The table of the API: `.csv` after a path says that it is served as CSV too."""
    served = json.loads(openapi.document("", ROUTES))["paths"]
    lines = ["| path | parameters | answer |", "|---|---|---|"]
    for path, methods in served.items():
        if path.endswith(CSV):
            continue
        for method, operation in methods.items():
            called = "" if method == "get" else f"{method.upper()} "
            suffix = f", `{CSV}`" if f"{path}{CSV}" in served else ""
            given = ", ".join(_parameter(one) for one in operation.get("parameters", []))
            lines.append(f"| {called}`{path}`{suffix} | {given} | {operation['summary']} |")
    return "\n".join(lines) + "\n"


def _parameter(described: dict[str, Any]) -> str:
    """Its name; bold where it must be given."""
    name = described["name"]
    return f"**{name}**" if described["required"] else str(name)


TABLES: Final[tuple[tuple[str, str, Callable[[], str]], ...]] = (
    ("deploy/guide/metrics.md", "# Metrics", markdown),
    ("deploy/guide/settings.md", "# Settings", settings),
    ("deploy/guide/settings.md", "## Sources", sources),
    ("deploy/guide/api.md", "## Paths", paths),
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
