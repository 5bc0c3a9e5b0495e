"""Reads and writes tables whose names the user chooses, such as `[experiments.NAME]`. Pure.

For their free names no environment variable overrides a key of them.
"""

from collections.abc import Iterator, Mapping
from dataclasses import Field, fields
from typing import Any, TypeAlias

from .kinds import InvalidValue

FieldFault: TypeAlias = tuple[str, object, str]
"""(key, value, rule) of a fault"""


def fields_of(owner: type) -> "dict[str, Field[Any]]":
    """Key in the file → setting of a frozen class."""
    settings = (entry for entry in fields(owner) if "kind" in entry.metadata)
    # `from_` stands for the key `from`, which is a word of the language.
    return {entry.name.removesuffix("_ms").removesuffix("_"): entry for entry in settings}


def read_fields(
    key: str, given: Mapping[str, object], owner: type
) -> tuple[dict[str, Any], list[FieldFault]]:
    """The arguments for `owner` that a table contains, and every fault of the table."""
    allowed, values, faults = fields_of(owner), dict[str, Any](), list[FieldFault]()
    for name, value in given.items():
        entry = allowed.get(name)
        if entry is None:
            faults.append(
                (f"{key}.{name}", None, f"unknown key: must be one of {', '.join(allowed)}")
            )
            continue
        try:
            values[entry.name] = entry.metadata["kind"].read(value)
        except InvalidValue as invalid:
            faults += [(f"{key}.{name}", wrong, rule) for wrong, rule in invalid.faults]
    return values, faults


def written_fields(table: Any) -> Iterator[str]:
    """The lines of TOML of one table, without its header."""
    for key, entry in fields_of(type(table)).items():
        value = getattr(table, entry.name)
        if value is None:
            yield f"# {key} is not set"
        else:
            yield f"{key} = {entry.metadata['kind'].write(value)}"
