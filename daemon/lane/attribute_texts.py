"""What attributes and experiments of impressions come to, by the JSON text they came in. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Annotated, Final, TypeAlias

import msgspec
import numpy as np
from msgspec import Meta
from msgspec.structs import astuple

from relevanced.metrics.lists import Integers

from ..events.attributes import as_fields, can_be_fields
from ..events.types import SURELY_SHORT, PlainImpression
from ..experiments.specs import IMPRESSION, USER, Assignment
from ..plan import Plan, Values

REMEMBERED_TEXTS: Final = 50_000
"""Distinct attribute texts whose values are remembered."""

NOT_PARSED: Final = -1

_Text: TypeAlias = Annotated[str, Meta(max_length=SURELY_SHORT)]


@dataclass(frozen=True, eq=False)
class ParsedAttributes:
    """What the attributes and experiments of an impression come to."""

    values: Values
    surface_id: int
    assignment: Assignment
    attributes: Mapping[str, str | None]
    """Those that somebody asks for."""


@lru_cache(maxsize=8)
def _decoder_of(names: tuple[str, ...]) -> msgspec.json.Decoder[msgspec.Struct | None]:
    # One for all lanes: a type that is given up stays in memory, in the midst of what a lane gave
    # back, until all garbage is looked for.
    return msgspec.json.Decoder(as_fields(names, _Text | None, None) | None)


class AttributeTexts:
    """What attributes and experiments come to, by the JSON text they came in: texts repeat, so most
    of what is done with them is done once for each."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._numbers: dict[bytes, int] = {}
        """By both texts, the one behind the other: an object or null ends where it ends."""
        self._table: list[ParsedAttributes] = []
        units = () if plan.tracking is None else plan.tracking.unit_attributes
        surface = () if plan.surfaces is None else (plan.surfaces.attribute,)
        self._names = tuple(dict.fromkeys((*plan.attributes, *units, *surface)))
        self._can_parse = can_be_fields(self._names)
        """Whether the decoder below can find these names; else every text is left to the careful
        reader, which can."""
        # other attributes are passed over, whatever they hold
        self._attributes = _decoder_of(self._names if self._can_parse else ())
        self._experiments = msgspec.json.Decoder(dict[_Text, _Text] | None)

    def parse(
        self, impressions: Sequence[PlainImpression]
    ) -> tuple[Integers, Sequence[ParsedAttributes]]:
        """(m,) what each tells, as its place in a table, or NOT_PARSED where its texts are not plain;
        and that table."""
        if len(self._table) >= REMEMBERED_TEXTS:
            self._numbers, self._table = {}, []
        known = self._numbers.get
        texts = [b"".join((one.attributes, one.experiments)) for one in impressions]
        numbers = [known(text, NOT_PARSED) for text in texts]
        if NOT_PARSED in numbers:
            pairs = zip(texts, impressions, strict=True)
            numbers = [known(text) or self._read(text, one) for text, one in pairs]
        return np.fromiter(numbers, np.int64, len(numbers)), self._table

    def _read(self, text: bytes, impression: PlainImpression) -> int:
        if text in self._numbers:
            return self._numbers[text]
        if not self._can_parse:
            return NOT_PARSED
        try:
            attributes = self._attributes.decode(impression.attributes)
            experiments = self._experiments.decode(impression.experiments) or {}
        except (ValueError, RecursionError):
            return NOT_PARSED
        asked = dict(zip(self._names, () if attributes is None else astuple(attributes)))
        tracking = self._plan.tracking
        assignment = () if tracking is None else tracking.assignment(experiments)
        plan = self._plan
        values, surface_id = plan.values_of(asked, experiments), plan.surface_id_of(asked)
        self._table.append(ParsedAttributes(values, surface_id, assignment, asked))
        return self._numbers.setdefault(text, len(self._table) - 1)

    def units_of(
        self, impressions: Sequence[PlainImpression], told: Integers
    ) -> tuple[Sequence[str | None], ...]:
        """Whom each was shown to: (m,) for each unit of the experiments that are tracked."""
        tracking = self._plan.tracking
        return (
            ()
            if tracking is None
            else tuple(self._unit_of(unit, impressions, told) for unit in tracking.units)
        )

    def _unit_of(
        self, unit: str, impressions: Sequence[PlainImpression], told: Integers
    ) -> Sequence[str | None]:
        if unit == USER:
            return [one.user_id for one in impressions]
        if unit == IMPRESSION:
            return [one.impression_id for one in impressions]
        return [self._table[number].attributes.get(unit) for number in told.tolist()]
