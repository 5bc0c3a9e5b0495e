"""What a question may name, and what is said of a value that is none. Pure."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

SOME: Final = 20
"""Known values that a refusal lists."""


class BadRequest(Exception):
    """A question that cannot be answered; the message shows the value and the rule."""

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


def read_query(
    query: Iterable[tuple[str, str]],
    parameters: Sequence[Parameter],
    known: Mapping[str, Sequence[str]],
) -> dict[str, list[str]]:
    """The values of each parameter of a query string, defaults filled in.

    `known` lists the values of those parameters that have a fixed set. Raises BadRequest with the
    value and what is allowed: for an unknown parameter or value, for a missing parameter, and for
    one that is given twice but may not be.
    """
    wanted: dict[str, list[str]] = {}
    for name, value in query:
        if name not in [parameter.name for parameter in parameters]:
            names = ", ".join(parameter.name for parameter in parameters) or "none: there are none"
            raise BadRequest(400, f"{name}: must be one of {names}")
        if name in known and value not in known[name]:
            raise BadRequest(400, f"{name}={value}: must be one of {_listed(known[name])}")
        wanted.setdefault(name, []).append(value)
    for parameter in parameters:
        values = wanted.get(parameter.name, [])
        if len(values) > 1 and not parameter.repeatable:
            raise BadRequest(400, f"{parameter.name}={', '.join(values)}: must be given once")
        if not values and parameter.required:
            choice = f"one of {_listed(known[parameter.name])}"
            raise BadRequest(400, f"{parameter.name}: must be given, {choice}")
        if not values and parameter.default is not None:
            wanted[parameter.name] = [parameter.default]
    return wanted


def _listed(values: Sequence[str]) -> str:
    more = f"; … ({len(values)} in all)" if len(values) > SOME else ""
    return "; ".join(sorted(values)[:SOME]) + more
