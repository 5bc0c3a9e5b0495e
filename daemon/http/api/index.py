"""The list of what the API has."""

from typing import Final

import msgspec


class Listed(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One path."""

    path: str
    summary: str


class Index(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Every path of the API; the OpenAPI document describes their parameters and answers."""

    paths: tuple[Listed, ...]


MARKER_PATHS: Final = (
    Listed("/api/v1/markers", "What people marked, by time. POST sets a marker."),
    Listed("/api/v1/markers/{id}", "DELETE removes a marker."),
)
