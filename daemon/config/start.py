"""Where reading begins in logs of which nothing was read yet. Pure."""

from dataclasses import dataclass
from enum import Enum
from typing import TypeAlias

from .kinds import InvalidValue, Kind, duration, duration_ms, duration_text, quoted


class LogEnd(Enum):
    """One of the two ends of a log."""

    EARLIEST = "earliest"
    LATEST = "latest"


@dataclass(frozen=True)
class Ago:
    """The first record that is at most `ms` old."""

    ms: int


Start: TypeAlias = LogEnd | Ago


def start() -> Kind[Start]:
    """An end of the log, or how far back."""

    def read(value: object) -> Start:
        if isinstance(value, str) and value.lower() in (end.value for end in LogEnd):
            return LogEnd(value.lower())
        try:
            return Ago(duration_ms(value))
        except InvalidValue as invalid:
            rule = 'must be "earliest", "latest" or a duration such as "36h"'
            raise InvalidValue((value, rule)) from invalid

    def write(value: Start) -> str:
        return quoted(value.value if isinstance(value, LogEnd) else duration_text(value.ms))

    return Kind('"earliest" | "latest" | duration', read, write, duration(1, 0).parse)
