"""What attributes and experiments of impressions come to, by the JSON text they came in. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Annotated, Final, TypeAlias

import msgspec
from msgspec import Meta
from msgspec.structs import astuple

from relevanced.daemon.events import SURELY_SHORT, PlainImpression
from relevanced.daemon.experiments.specs import USER, Assignment
from relevanced.daemon.experiments.subjects import NOBODY, Subject, subject_of
from relevanced.daemon.formats.attributes import as_fields, can_be_fields
from relevanced.daemon.plan import Plan, Values

REMEMBERED_TEXTS: Final = 50_000
"""Distinct attribute texts whose values are remembered."""

_Text: TypeAlias = Annotated[str, Meta(max_length=SURELY_SHORT)]


@dataclass(frozen=True)
class Told:
    """What the attributes and experiments of an impression come to."""

    values: Values
    assignment: Assignment
    attributes: Mapping[str, str | None]
    """Those that somebody asks for."""


@lru_cache(maxsize=8)
def _decoder_of(names: tuple[str, ...]) -> msgspec.json.Decoder[msgspec.Struct | None]:
    # One for all lanes: a type that is given up stays in memory, in the midst of what a lane gave
    # back, until all garbage is looked for.
    return msgspec.json.Decoder(as_fields(names, _Text | None, None) | None)


class AttributeTexts:
    """What attributes and experiments come to, by the JSON text they came in: texts repeat."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._known: dict[tuple[bytes, bytes], Told] = {}
        units = () if plan.tracking is None else plan.tracking.unit_attributes
        self._names = tuple(dict.fromkeys((*plan.attributes, *units)))
        # other attributes are passed over, whatever they hold
        names = self._names if can_be_fields(self._names) else ()
        self._attributes = _decoder_of(names)
        self._experiments = msgspec.json.Decoder(dict[_Text, _Text] | None)

    def told_by(self, impressions: Sequence[PlainImpression]) -> list[Told | None]:
        """What each tells, or None where its texts are not plain."""
        known = self._known.get
        texts = [(bytes(one.attributes), bytes(one.experiments)) for one in impressions]
        return [known(text) or self._read(text) for text in texts]

    def _read(self, texts: tuple[bytes, bytes]) -> Told | None:
        try:
            attributes = self._attributes.decode(texts[0])
            experiments = self._experiments.decode(texts[1]) or {}
        except (ValueError, RecursionError):
            return None
        if len(self._known) >= REMEMBERED_TEXTS:
            self._known.clear()
        asked = dict(zip(self._names, () if attributes is None else astuple(attributes)))
        tracking = self._plan.tracking
        assignment = () if tracking is None else tracking.assignment(experiments)
        told = Told(self._plan.values_of(asked, experiments), assignment, asked)
        self._known[texts] = told
        return told

    def subjects_of(
        self, impressions: Sequence[PlainImpression], told: Sequence[Told]
    ) -> list[Subject]:
        """Whom each was shown to, and in which arms, where somebody asks for experiments."""
        tracking = self._plan.tracking
        if tracking is None:
            return []
        both = zip(impressions, told, strict=True)
        if tracking.units == (USER,):  # as nearly everywhere: the short way of `subject_of`
            return [(t.assignment, (one.user_id,)) if t.assignment else NOBODY for one, t in both]
        return [
            subject_of(tracking, t.assignment, one.impression_id, one.user_id, t.attributes)
            for one, t in both
        ]
