"""Single changes in every kind of value that a store has of a lane.

Kinds are those of the storage: a key or a field of the head that none of `KINDS` reads is an error,
and so every kind of key that is new must be named here. Within a kind every field is found by its
type.
"""

import random
from collections.abc import Callable, Hashable, Iterator, Mapping
from dataclasses import replace
from typing import Any, Final

import msgspec

from relevanced.daemon.storage import (
    ClassesHead,
    LaneLayouts,
    QueryHead,
    RowsHead,
    StoredHour,
    TimelineHead,
    WriterState,
    experiments,
    open_blocks,
    pack,
    pack_integers,
    pack_page,
    row_pages,
    unpack,
    unpack_integers,
    unpack_page,
)
from tests.fakes import MemoryLane

Path = tuple[Hashable, ...]


class Kind:
    """How values of one kind are read and written."""

    def __init__(self, read: Callable[[bytes], Any], write: Callable[[Any], bytes]) -> None:
        self.read, self.write = read, write


def packed(of: Any) -> Kind:
    return Kind(lambda data: unpack(data, of), pack)


def as_json(of: Any) -> Kind:
    return Kind(lambda data: msgspec.json.decode(data, type=of), msgspec.json.encode)


PAGE: Final = Kind(
    lambda data: {"cells": pack_integers(unpack_page(data)), "shape": unpack_page(data).shape},
    lambda value: pack_page(unpack_integers(value["cells"]).reshape(value["shape"])),
)
NUMBER: Final = as_json(int)
TEXT: Final = Kind(bytes.decode, str.encode)
BY_TOPIC: Final = as_json(dict[str, int])
HEAD: Final[Mapping[str, Kind]] = {
    "token": TEXT,
    "sequence": NUMBER,
    "offsets": BY_TOPIC,
    "start": BY_TOPIC,
    "watermarks": BY_TOPIC,
    "counts": as_json(dict[str, dict[str, int]]),
    "state": packed(WriterState),
    "keys": NUMBER,
    "names": NUMBER,
    "queries": packed(QueryHead),
    "judged": packed(RowsHead),
    "judgements": packed(TimelineHead),
    "classes": packed(ClassesHead),
}
"""By field."""
KEYS: Final[Mapping[str, Kind]] = {
    "open:#": packed(open_blocks._SearchWire),
    "rows:#:#:#": PAGE,
    "totals:#": PAGE,
    "hours:#:#": PAGE,
    "judged:#:#:#": PAGE,
    "judged:hours:#:#": PAGE,
    "layouts": packed(LaneLayouts),
    "experiment:#": packed(experiments._Header),
    "experiment:#:users:#": packed(experiments._Users),
    "experiment:#:day:#": packed(experiments._Day),
    "queries:#": packed(StoredHour),
    "queries:#:part:#": packed(StoredHour),
    "examples:#": packed(row_pages.ExampleHour),
    "admitted": packed(dict[str, list[dict[str, int]]]),
}
"""By the key without its numbers and hashes."""
WORDS: Final = ("judged", "hours", "users", "day", "part")


def kind_of(key: str) -> str:
    """The key without its numbers and hashes."""
    first, *rest = key.split(":")
    return ":".join([first, *(part if part in WORDS else "#" for part in rest)])


def leaves(value: Any, path: Path = (), names: str = "") -> Iterator[tuple[str, Path]]:
    """(name of the field, path to it) of everything that has a value."""
    if isinstance(value, msgspec.Struct):
        for one in value.__struct_fields__:
            yield from leaves(getattr(value, one), (*path, one), f"{names}.{one}")
    elif isinstance(value, Mapping):
        for key, of in value.items():
            if key != "shape":
                yield from leaves(of, (*path, key), names + (".cells" if key == "cells" else "{}"))
    elif isinstance(value, list | tuple):
        for index, of in enumerate(value if b"" not in value else ()):  # a variant without users
            yield from leaves(of, (*path, index), f"{names}[]")
    elif value != b"":
        yield names, path


def changed(value: Any, path: Path) -> Any:
    """The value with another leaf at the path."""
    if not path:
        return _other(value)
    first, *rest = path
    if isinstance(value, msgspec.Struct):
        return msgspec.structs.replace(
            value, **{str(first): changed(getattr(value, str(first)), tuple(rest))}
        )
    if isinstance(value, Mapping):
        return {**value, first: changed(value[first], tuple(rest))}
    return type(value)(
        changed(of, tuple(rest)) if index == first else of for index, of in enumerate(value)
    )


def _other(leaf: Any) -> Any:
    if isinstance(leaf, bool):
        return not leaf
    if isinstance(leaf, int | float):
        return leaf + 1
    if leaf is None:
        return 1_795_177_000_000
    if isinstance(leaf, str):
        return leaf + "x"
    if len(leaf) % 8 == 0 and 0 in leaf:
        numbers = unpack_integers(leaf).copy()
        numbers[len(numbers) // 2] -= 1
        return pack_integers(numbers)
    return leaf[:-1] + bytes([leaf[-1] ^ 1])


Plant = Callable[[MemoryLane], MemoryLane]


def plants(store: MemoryLane, rng: random.Random) -> dict[str, Plant]:
    """A single change of each field of each kind of value, by the name of the field: in the largest
    value of the kind that has the field."""
    found: dict[str, list[Plant]] = {}
    values = [(HEAD, f"head.{name}", "fields", name) for name in store.fields]
    largest = sorted(store.blobs, key=lambda key: (-len(store.blobs[key]), key))
    values += [(KEYS, kind_of(key), "blobs", key) for key in largest]
    for kinds, named, where, key in values:
        kind, of_value = kinds[named.removeprefix("head.")], dict[str, list[Plant]]()
        for name, path in leaves(kind.read(getattr(store, where)[key])):
            of_value.setdefault(named + name, []).append(_plant(where, key, kind, path))
        found = of_value | found
    found["names"] = [_plant("names", key, as_json(list[Any]), (1,)) for key in store.names]
    return {name: rng.choice(of_name) for name, of_name in found.items()}


def _plant(where: str, key: str, kind: Kind, path: Path) -> Plant:
    def plant(store: MemoryLane) -> MemoryLane:
        values = dict(getattr(store, where))
        values[key] = kind.write(changed(kind.read(values[key]), path))
        return replace(store, **{where: values})

    return plant
