"""README.md of the chart: its values, with types and descriptions from the schema and defaults from
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

Workers and exporters as two Deployments, with a Service for the page and the API. How to install
it, and what it needs, is described in [deploy/README.md](../../README.md). This table is made from
`values.schema.json` and `values.yaml` (`make chart-readme`).

| value | type | default | description |
|---|---|---|---|
"""
LONGEST_DEFAULT: Final = 60

Schema = Mapping[str, Any]


def readme(schema: Schema, defaults: Mapping[str, Any]) -> str:
    """The text of the file."""
    return HEAD + "".join(f"| {' | '.join(row)} |\n" for row in rows(schema, schema, defaults, ""))


def rows(
    whole: Schema, part: Schema, defaults: Mapping[str, Any], prefix: str
) -> Iterator[tuple[str, str, str, str]]:
    """(value, type, default, description) of every value in a part of the schema; an object whose
    values are listed has no row of its own."""
    for name, described in part["properties"].items():
        known = {**resolved(whole, described), **described}
        path, default = f"{prefix}{name}", defaults.get(name)
        if "properties" in known:
            yield from rows(whole, known, default or {}, f"{path}.")
        elif name in defaults:
            yield f"`{path}`", type_of(known), text_of(default), known["description"]


def resolved(whole: Schema, described: Schema) -> Schema:
    """What a `$ref` refers to; the schema itself where it has none."""
    if "$ref" not in described:
        return described
    definition: Schema = whole["definitions"][described["$ref"].rpartition("/")[2]]
    return definition


def type_of(described: Schema) -> str:
    """The type in words: alternatives are separated by `or`."""
    if "enum" in described:
        return " or ".join(f"`{value}`" for value in described["enum"])
    types = described["type"]
    return types if isinstance(types, str) else " or ".join(types)


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
