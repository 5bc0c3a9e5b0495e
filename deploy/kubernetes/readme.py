"""README.md of the chart: its values, with descriptions from the schema and defaults from
values.yaml.

    python -m deploy.kubernetes.readme    # writes it: make chart-readme
"""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import yaml

CHART: Final = Path(__file__).parent / "relevanced"
HEAD: Final = """\
# The chart of relevanced

How to install it: [deploy/guide/install.md](../../guide/install.md). This table is made from
`values.schema.json` and `values.yaml` (`make chart-readme`).

| value | default | description |
|---|---|---|
"""
LONGEST_DEFAULT: Final = 60

Schema = Mapping[str, Any]


def readme(schema: Schema, defaults: Mapping[str, Any]) -> str:
    """The text of the file: values of one description have one row."""
    names: dict[tuple[str, ...], list[str]] = {}
    for name, *rest in rows(schema, schema, defaults, ""):
        names.setdefault(tuple(rest), []).append(name)
    lines = (f"| {', '.join(of)} | {' | '.join(rest)} |\n" for rest, of in names.items())
    return HEAD + "".join(lines)


def rows(
    whole: Schema, part: Schema, defaults: Mapping[str, Any], prefix: str
) -> Iterator[tuple[str, str, str]]:
    """(value, default, description) of every value in a part of the schema; an object whose
    values are listed has no row of its own."""
    for name, described in part["properties"].items():
        known = {**resolved(whole, described), **described}
        path, default = f"{prefix}{name}", defaults.get(name)
        if "properties" in known:
            yield from rows(whole, known, default or {}, f"{path}.")
        elif name in defaults:
            yield f"`{path}`", text_of(default), described_as(known)


def resolved(whole: Schema, described: Schema) -> Schema:
    """What a `$ref` refers to; the schema itself where it has none."""
    if "$ref" not in described:
        return described
    definition: Schema = whole["definitions"][described["$ref"].rpartition("/")[2]]
    return definition


def described_as(described: Schema) -> str:
    """The description, and the choices where there are some."""
    choices = " or ".join(f"`{value}`" for value in described.get("enum", ()))
    text = str(described["description"])
    return f"{text} {choices}." if choices else text


def text_of(default: object) -> str:
    """A default as it stands in a table: what is long is in values.yaml."""
    text = json.dumps(default)
    return f"`{text}`" if len(text) <= LONGEST_DEFAULT else "see `values.yaml`"


def rendered() -> str:
    """The text for the chart as it is."""
    schema = json.loads((CHART / "values.schema.json").read_text())
    return readme(schema, yaml.safe_load((CHART / "values.yaml").read_text()))


if __name__ == "__main__":
    (CHART / "README.md").write_text(rendered())
