"""The list of what the API has."""

import msgspec


class Listed(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One path."""

    path: str
    summary: str


class Index(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Every path of the API; the OpenAPI document describes their parameters and answers."""

    paths: tuple[Listed, ...]
