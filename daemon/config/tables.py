"""Tables that stand beside the table of settings: read, with every fault, and written back. Pure.

Users name them, so no environment variable overrides what is in them.
"""

from collections.abc import Iterator, Mapping
from dataclasses import Field, fields
from typing import Any, TypeAlias

from .kinds import InvalidValue

Told: TypeAlias = tuple[str, object, str]
"""(key, value, rule) of a fault."""


def fields_of(owner: type) -> "dict[str, Field[Any]]":
    """The settings of a frozen class, by their keys in the file."""
    settings = (entry for entry in fields(owner) if "kind" in entry.metadata)
    return {entry.name.removesuffix("_ms"): entry for entry in settings}


def read_fields(
    key: str, given: Mapping[str, object], owner: type
) -> tuple[dict[str, Any], list[Told]]:
    """The arguments of the class that a table gives, and every fault of it."""
    known, values, faults = fields_of(owner), dict[str, Any](), list[Told]()
    for name, value in given.items():
        entry = known.get(name)
        if entry is None:
            faults.append((f"{key}.{name}", None, f"unknown key: one of {', '.join(known)}"))
            continue
        try:
            values[entry.name] = entry.metadata["kind"].read(value)
        except InvalidValue as refused:
            faults += [(f"{key}.{name}", wrong, rule) for wrong, rule in refused.faults]
    return values, faults


def written_fields(one: Any) -> Iterator[str]:
    """The lines of TOML of one table, without its head."""
    for key, entry in fields_of(type(one)).items():
        value = getattr(one, entry.name)
        if value is None:
            yield f"# {key} is not set"
        else:
            yield f"{key} = {entry.metadata['kind'].write(value)}"
