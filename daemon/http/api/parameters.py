"""What requests give: the parameters of a route and the fields of what is posted, with their rules
and the errors for values that break them; and the answers that list what can be asked for. Pure.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

import msgspec

from ...changes import MOST_CHARACTERS
from ...events import InvalidField, timestamp_ms, timestamp_text
from ...experiments import Spec
from ...exporter import Reading
from ...plan import Plan
from ...views import LaneView, Segment, csv_text

Query: TypeAlias = Mapping[str, Sequence[str]]
"""Parameter → its values, those of filters among them."""
LISTED_VALUES: Final = 20
"""Most allowed values that an error message lists."""


class BadRequest(Exception):
    """A request that cannot be answered. The message shows the value and the rule."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


@dataclass(frozen=True)
class QueryParameter:
    """One parameter of a query."""

    name: str
    text: str
    repeatable: bool = False
    required: bool = False
    default: str | None = None
    in_path: bool = False
    """Whether it is a part of the path, so that it is always given."""
    one_of: Callable[[Plan], Sequence[str]] | None = None
    """The allowed values, of a parameter that has a fixed set."""


def read_query(
    query: Iterable[tuple[str, str]],
    parameters: Sequence[QueryParameter],
    allowed: Mapping[str, Sequence[str]],
) -> dict[str, list[str]]:
    """The values of each parameter of a query string, defaults filled in.

    `allowed` lists the values of those parameters that have a fixed set. Raises BadRequest with the
    value and the rule: for an unknown parameter or value, for a missing parameter, and for
    one that is given twice but may not be.
    """
    values_of: dict[str, list[str]] = {}
    for name, value in query:
        if name not in [parameter.name for parameter in parameters]:
            names = (
                ", ".join(parameter.name for parameter in parameters)
                or "none: this route takes none"
            )
            raise BadRequest(400, f"{name}: must be one of {names}")
        if name in allowed and value not in allowed[name]:
            raise BadRequest(400, f"{name}={value}: must be one of {_listed(allowed[name])}")
        values_of.setdefault(name, []).append(value)
    for parameter in parameters:
        values = values_of.get(parameter.name, [])
        if len(values) > 1 and not parameter.repeatable:
            raise BadRequest(400, f"{parameter.name}={', '.join(values)}: must be given once")
        if not values and parameter.required:
            choice = f"one of {_listed(allowed[parameter.name])}"
            raise BadRequest(400, f"{parameter.name}: must be given, {choice}")
        if not values and parameter.default is not None:
            values_of[parameter.name] = [parameter.default]
    return values_of


def requested(segments: Sequence[Segment], wanted: Query) -> list[tuple[int, Segment]]:
    """(row, segment) of the segments that pass the filters."""
    return [
        (row, (grouping, segment))
        for row, (grouping, segment) in enumerate(segments)
        if grouping in wanted.get("grouping", (grouping,))
        and segment in wanted.get("segment", (segment,))
    ]


def whole_number(name: str, text: str, most: int) -> int:
    """The number that a parameter is, from 1 to `most`, below 10^9. Raises BadRequest."""
    if not text.isascii() or not text.isdigit() or len(text) > 9 or not 0 < int(text) <= most:
        raise BadRequest(400, f"{name}={text}: must be a whole number between 1 and {most:,}")
    return int(text)


def _listed(values: Sequence[str]) -> str:
    more = f"; … ({len(values)} in all)" if len(values) > LISTED_VALUES else ""
    return "; ".join(sorted(values)[:LISTED_VALUES]) + more


SUFFIX: Final = ".csv"
CONTENT_TYPE: Final = "text/csv; charset=utf-8; header=present"


def table_text(answer: msgspec.Struct, rows: str, row: type[msgspec.Struct]) -> bytes:
    """The rows of an answer, which are in its attribute `rows`. A column of a nested value has the
    name of both, joined by `_`; null is an empty field."""
    values = (_values(msgspec.structs.asdict(one)) for one in getattr(answer, rows))
    return csv_text(_columns(row), values).encode()


def _columns(row: type[msgspec.Struct], before: str = "") -> Iterator[str]:
    for field in msgspec.structs.fields(row):
        name = f"{before}{field.encode_name}"
        if isinstance(field.type, type) and issubclass(field.type, msgspec.Struct):
            yield from _columns(field.type, f"{name}_")
        else:
            yield name


def _values(row: Mapping[str, Any]) -> Iterator[object]:
    for value in row.values():
        if isinstance(value, msgspec.Struct):
            yield from _values(msgspec.structs.asdict(value))
        else:
            yield value


def tracked(reading: Reading, experiment: str) -> tuple[Spec, Sequence[LaneView]]:
    """How the experiment is counted, and the lanes that have tallies of it. Raises BadRequest for
    one that is not tracked."""
    tracking = reading.plan.tracking
    spec = None if tracking is None else tracking.spec(experiment)
    lanes = [lane for lane in reading.views if experiment in lane.experiments]
    declared = tracking is not None and experiment in tracking.declared
    if spec is None or not (lanes or declared):
        raise BadRequest(
            404,
            f"experiment={experiment}: is not tracked; /api/v1/experiments lists those that are",
        )
    return spec, lanes


class Listed(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One path."""

    path: str
    summary: str


class Index(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Every path of the API; the OpenAPI document describes their parameters and answers."""

    paths: tuple[Listed, ...]


class Named(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One segment and its impressions in the longest live window."""

    segment: str
    impressions: int | None
    """null where not all of the window has the grouping."""


class Grouping(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The shown segments of a grouping, busiest first; equally busy ones by name."""

    grouping: str
    segments: tuple[Named, ...]


class Segments(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Every grouping: `all` first, then in configured order."""

    as_of: str | None
    groupings: tuple[Grouping, ...]


def segments(reading: Reading) -> Segments:
    """The segments that are shown by name, and the `other` of each grouping."""
    selection, snapshot = reading.selection, reading.snapshot
    longest, coverage = snapshot.longest, snapshot.coverage
    by_grouping: dict[str, list[tuple[int, str]]] = {
        name: [] for name in reading.plan.grouping_names
    }
    for (name, segment), count in zip(selection.segments, selection.ranking(snapshot), strict=True):
        by_grouping[name].append((-count, segment))

    def is_known(name: str) -> bool:
        return not (coverage and longest and coverage.hides(name, longest.first_ms))

    as_of_ms = reading.snapshot.as_of_ms
    return Segments(
        None if as_of_ms is None else timestamp_text(as_of_ms),
        tuple(
            Grouping(
                name,
                tuple(
                    Named(text, -count if is_known(name) else None) for count, text in sorted(of)
                ),
            )
            for name, of in by_grouping.items()
        ),
    )


MOST_BYTES: Final = 8_192
"""Most bytes of a posted body."""
_TIME_RULE: Final = "must be a time with its zone such as 2026-11-20T12:00:00Z"
_VALUE_CHARACTERS: Final = 80
"""So much of a refused value is repeated."""


def object_of(body: bytes) -> dict[str, Any]:
    """The JSON object of a body. Raises BadRequest, as all that follows, with the value and the
    rule."""
    try:
        decoded = msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise BadRequest(400, f"the body: must be a JSON object: {error}") from error
    if not isinstance(decoded, dict):
        raise BadRequest(400, "the body: must be a JSON object")
    return decoded


def refuse_unknown(place: str, fields: Mapping[str, Any], names: Sequence[str]) -> None:
    """Refuse fields that have none of these names."""
    for name in fields:
        if name not in names:
            raise BadRequest(400, f"{place}{quoted(name)}: must be one of {', '.join(names)}")


def text_of(value: Any) -> str:
    """What somebody wrote in one line."""
    is_text = isinstance(value, str) and value.isprintable() and value.strip()
    if not is_text or len(value) > MOST_CHARACTERS:
        rule = f"must be 1 to {MOST_CHARACTERS} printable characters, not only spaces"
        raise BadRequest(400, f"text={quoted(value)}: {rule}")
    return str(value)


def time_of(fields: Mapping[str, Any], name: str) -> int | None:
    """The time of a field in ms; None where it is not given."""
    value = fields.get(name)
    if value is None:
        return None
    try:
        if not isinstance(value, str):
            raise BadRequest(400, f"{name}={quoted(value)}: {_TIME_RULE}")
        return timestamp_ms(value, name)
    except InvalidField as error:
        raise BadRequest(400, f"{name}={quoted(value)}: {_TIME_RULE}") from error


def quoted(value: Any) -> str:
    """The value in one line, cut where it is long."""
    text = value if isinstance(value, str) else msgspec.json.encode(value).decode()
    cut = text[:_VALUE_CHARACTERS] + "…" * (len(text) > _VALUE_CHARACTERS)
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in cut)
