"""Attributes, experiments and the query of an impression: which are read, and which values are left
out.

A bad value does not cost the impression: what cannot be a segment, or a query, is left out, and the
impression counts without it.
"""

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Final, final

import msgspec

from .fields import ABSENT, InvalidField, decoded, too_long
from .types import Impression

_MEMBERS: Final = msgspec.json.Decoder(dict[str, msgspec.Raw] | None)
_SCALAR: Final = msgspec.json.Decoder(str | int | float | bool | None)
_QUERY: Final = msgspec.json.Decoder(str | None)
_NO_FIELD: Final = re.compile(r'[\\"\x00-\x1f]')
"""Characters that the decoder does not accept in the name of a field."""


@final
class Trimmed(msgspec.Struct, frozen=True):
    """An impression without some values of its record, and the reason for each that is left out."""

    event: Impression
    dropped: tuple[str, ...]


def as_fields(names: Sequence[str], kind: object, default: object) -> type[msgspec.Struct]:
    """Return a struct type with a field for each name: the decoder skips all other members of an
    object without reading them."""
    fields = [(f"member_{index}", kind, default) for index in range(len(names))]
    rename = {field[0]: name for field, name in zip(fields, names, strict=True)}
    return msgspec.defstruct("Members", fields, rename=rename, gc=False)


def can_be_fields(names: Iterable[str]) -> bool:
    """Whether `as_fields` accepts these names."""
    return not any(_NO_FIELD.search(name) for name in names)


def raw_members(
    name: str, raw: msgspec.Raw | bytes, needed: tuple[str, ...] | None = None
) -> dict[str, msgspec.Raw]:
    """Return the members of an object (only of the `needed` names, if given) as raw JSON.

    Null reads as an empty object.
    """
    if needed is None:
        return decoded(name, raw, _MEMBERS, "wrong_type") or {}
    if not can_be_fields(needed):
        return {key: value for key, value in raw_members(name, raw).items() if key in needed}
    found = decoded(name, raw, _members_decoder(needed), "wrong_type")
    return {} if found is None else dict(zip(needed, msgspec.structs.astuple(found), strict=True))


@lru_cache(maxsize=8)
def _members_decoder(names: tuple[str, ...]) -> msgspec.json.Decoder[msgspec.Struct | None]:
    decoder: msgspec.json.Decoder[msgspec.Struct | None]
    decoder = msgspec.json.Decoder(as_fields(names, msgspec.Raw, ABSENT) | None)
    return decoder


def attribute_texts(raws: Mapping[str, msgspec.Raw], dropped: list[str]) -> dict[str, str]:
    """Return attributes or experiments as text; null reads as missing.

    A value that cannot be used is left out, and its reason is added to `dropped`.
    """
    texts = {}
    for name, raw in raws.items():
        try:
            value = decoded(name, raw, _SCALAR, "bad_value")
        except InvalidField as error:
            if error.reason != "bad_value":
                raise
            dropped.append(error.reason)
            continue
        if value is None:
            continue
        text = value if isinstance(value, str) else json.dumps(value)
        if too_long(name) or too_long(text):
            dropped.append("long_name" if too_long(name) else "long_value")
        else:
            texts[name] = text
    return texts


def query_text(raw: msgspec.Raw, dropped: list[str]) -> str | None:
    """Return the text of a query; null reads as missing.

    A value that is no text, or no UTF-8, is left out, and its reason is added to `dropped`: the
    record would be accepted without it, whatever it is.
    """
    try:
        text: str | None = decoded("query", raw, _QUERY, "bad_query")
    except InvalidField:
        dropped.append("bad_query")
        return None
    return text
