"""The answers of the probes `/livez`, `/readyz` and `/startedz`. Pure."""

from collections.abc import Iterable
from http import HTTPStatus
from typing import Final

import msgspec

from ...exporter import Condition


class Alive(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The process is alive: its event loop runs."""

    alive: bool


class Readiness(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Whether the process is ready, and if not, why."""

    ready: bool
    conditions: tuple[Condition, ...]


STARTING: Final = ("started", "group", "snapshot")
"""Conditions that say whether a process could begin its work."""


def has_started(conditions: Iterable[Condition]) -> bool:
    """Whether nothing keeps a process from its work; lanes may need help all the same."""
    return all(condition.ok for condition in conditions if condition.name in STARTING)


def alive() -> tuple[int, bytes]:
    """(status, body) of `/livez`."""
    return HTTPStatus.OK, msgspec.json.encode(Alive(True))


def readiness(is_met: bool, conditions: tuple[Condition, ...]) -> tuple[int, bytes]:
    """(status, body) of `/readyz` and `/startedz`."""
    status = HTTPStatus.OK if is_met else HTTPStatus.SERVICE_UNAVAILABLE
    return status, msgspec.json.encode(Readiness(is_met, conditions))
