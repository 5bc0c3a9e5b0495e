"""The parameters of a route: their rules, and the errors for values that break them. Pure."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

LISTED_VALUES: Final = 20
"""Most allowed values that an error message lists."""


class BadRequest(Exception):
    """A request that cannot be answered. The message shows the value and the rule."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


@dataclass(frozen=True)
class Parameter:
    """One parameter of a query."""

    name: str
    text: str
    repeatable: bool = False
    required: bool = False
    default: str | None = None
    in_path: bool = False
    """Whether it is a part of the path, so that it is always given."""


def read_query(
    query: Iterable[tuple[str, str]],
    parameters: Sequence[Parameter],
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


def whole_number(name: str, text: str, most: int) -> int:
    """The number that a parameter is, from 1 to `most`, below 10^9. Raises BadRequest."""
    if not text.isascii() or not text.isdigit() or len(text) > 9 or not 0 < int(text) <= most:
        raise BadRequest(400, f"{name}={text}: must be a whole number between 1 and {most:,}")
    return int(text)


def _listed(values: Sequence[str]) -> str:
    more = f"; … ({len(values)} in all)" if len(values) > LISTED_VALUES else ""
    return "; ".join(sorted(values)[:LISTED_VALUES]) + more
