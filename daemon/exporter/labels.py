"""Segments as Prometheus labels: valid names, escaped values. Pure."""

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from ..lane.segments import attribute_values
from ..plan import ALL, OTHER
from ..telemetry.family import SCORE
from .snapshot import Segment

TAKEN: Final = frozenset((*SCORE, "le", "quantile", "cluster", "namespace", "job", "instance"))
"""Label names that already have a meaning, here or in Prometheus."""

_VALID: Final = re.compile(r"(?!__)[a-zA-Z_][a-zA-Z0-9_]*\Z")
_INVALID_CHARACTER: Final = re.compile(r"[^a-zA-Z0-9_]")


def label_names(groupings: Iterable[Sequence[str]]) -> dict[str, str]:
    """Attribute name → label name, distinct for distinct attributes.

    A name that is not a valid label name, or is taken, gets the prefix `attr_`, and `_` for each
    character that a label name must not contain; where another attribute has that label already, a
    number as suffix.
    """
    names = sorted({name for grouping in groupings for name in grouping})
    labels = {name: name for name in names if _VALID.match(name) and name not in TAKEN}
    used = set(labels.values())
    for name in names:
        if name not in labels:
            labels[name] = _free("attr_" + _INVALID_CHARACTER.sub("_", name), used)
            used.add(labels[name])
    return labels


def escape(value: str) -> str:
    """The value of a label as it stands between quotes in both text formats."""
    return value.replace("\\", "\\\\").replace("\n", "\\n").replace('"', '\\"')


def segment_labels(
    segments: Iterable[Segment],
    groupings: Mapping[str, Sequence[str]],
    names: Mapping[str, str],
) -> list[str]:
    """`grouping="…",segment="…"` and one label per attribute, for each segment.

    `groupings` maps the name of a grouping to its attributes, `names` attributes to label names.
    `other` stands for many values and has no attribute label.
    """
    return [
        f'grouping="{escape(grouping)}",segment="{escape(segment)}"'
        + _attributes(segment, groupings.get(grouping, ()), names)
        for grouping, segment in segments
    ]


def _attributes(segment: str, attributes: Sequence[str], names: Mapping[str, str]) -> str:
    if segment in (ALL, OTHER):
        return ""
    values = attribute_values(segment)
    return "".join(
        f',{names[attribute]}="{escape(value)}"'
        for attribute, value in zip(attributes, values, strict=True)
    )


def _free(label: str, used: set[str]) -> str:
    candidate, number = label, 2
    while candidate in used:
        candidate, number = f"{label}_{number}", number + 1
    return candidate
