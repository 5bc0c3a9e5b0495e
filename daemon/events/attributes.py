"""Attributes and experiments of an impression: which are read, and what becomes of bad values.

No value is worth an impression: what cannot be a segment is left out, and the impression counts
without it.
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
_NO_FIELD: Final = re.compile(r'[\\"\x00-\x1f]')
"""In the name of a field the decoder takes none of these."""


@final
class Trimmed(msgspec.Struct, frozen=True):
    """An impression without some values that its record held, and why each is left out."""

    event: Impression
    dropped: tuple[str, ...]


def as_fields(names: Sequence[str], kind: object, default: object) -> type[msgspec.Struct]:
    """A type whose fields stand for members of these names; all others are passed over unread."""
    fields = [(f"member_{number}", kind, default) for number in range(len(names))]
    rename = {field[0]: name for field, name in zip(fields, names, strict=True)}
    return msgspec.defstruct("Members", fields, rename=rename, gc=False)


def can_be_fields(names: Iterable[str]) -> bool:
    """Whether `as_fields` takes these names."""
    return not any(_NO_FIELD.search(name) for name in names)


def raw_members(
    name: str, raw: msgspec.Raw | bytes, asked: tuple[str, ...] | None = None
) -> dict[str, msgspec.Raw]:
    """The members of an object (of these names only, where they are given), not yet looked into.

    Null is as good as empty.
    """
    if asked is None:
        return decoded(name, raw, _MEMBERS, "wrong_type") or {}
    if not can_be_fields(asked):
        return {key: one for key, one in raw_members(name, raw).items() if key in asked}
    found = decoded(name, raw, _members_decoder(asked), "wrong_type")
    return {} if found is None else dict(zip(asked, msgspec.structs.astuple(found), strict=True))


@lru_cache(maxsize=8)
def _members_decoder(names: tuple[str, ...]) -> msgspec.json.Decoder[msgspec.Struct | None]:
    decoder: msgspec.json.Decoder[msgspec.Struct | None]
    decoder = msgspec.json.Decoder(as_fields(names, msgspec.Raw, ABSENT) | None)
    return decoder


def attribute_texts(raws: Mapping[str, msgspec.Raw], dropped: list[str]) -> dict[str, str]:
    """Attributes or experiments as text; null is as good as missing.

    No value is worth an impression: one that cannot be used is left out, and why is added to
    `dropped`.
    """
    texts = {}
    for name, raw in raws.items():
        try:
            value = decoded(name, raw, _SCALAR, "bad_value")
        except InvalidField as refusal:
            if refusal.reason != "bad_value":
                raise
            dropped.append(refusal.reason)
            continue
        if value is None:
            continue
        text = value if isinstance(value, str) else json.dumps(value)
        if too_long(name) or too_long(text):
            dropped.append("long_name" if too_long(name) else "long_value")
        else:
            texts[name] = text
    return texts
