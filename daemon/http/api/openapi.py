"""The OpenAPI 3.1 document, made from the table of routes and the types of their answers."""

from collections.abc import Sequence
from typing import Any, Final

import msgspec

from ...exporter.published import Condition
from .parameters import Parameter
from .routes import Route

PATH: Final = "/api/v1/openapi.json"
_REFERENCE: Final = "#/components/schemas/{name}"


class Alive(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The process is alive: its event loop runs."""

    alive: bool


class Readiness(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Whether the process is ready, and if not, why."""

    ready: bool
    conditions: tuple[Condition, ...]


class Error(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Why the request was not answered."""

    error: str


ERRORS: Final = {
    400: "A parameter is unknown, missing, or has a value that is not allowed.",
    404: "This process serves no scores, or the segment is not shown.",
    503: "No scores here yet.",
}


def document(version: str, routes: Sequence[Route]) -> bytes:
    """The document, encoded."""
    answers = [route.answer for route in routes]
    _, schemas = msgspec.json.schema_components(
        [*answers, Alive, Readiness, Error], ref_template=_REFERENCE
    )
    paths = {route.path: {"get": _operation(route)} for route in routes}
    return msgspec.json.encode(
        {
            "openapi": "3.1.0",
            "info": {
                "title": "relevanced",
                "version": version,
                "description": "Search quality in sliding windows of event time.",
            },
            "paths": {**paths, **_OTHERS},
            "components": {"schemas": schemas},
        }
    )


def _operation(route: Route) -> dict[str, Any]:
    errors = ERRORS if route.of_scores else {400: ERRORS[400]}
    return {
        "summary": route.summary,
        "operationId": route.path.rpartition("/")[2],
        "parameters": [_parameter(parameter) for parameter in route.parameters],
        "responses": {
            "200": _json("The answer.", route.answer),
            "304": {"description": "The client has this answer: If-None-Match contains its ETag."},
            **{str(status): _json(text, Error) for status, text in errors.items()},
        },
    }


def _parameter(parameter: Parameter) -> dict[str, Any]:
    value: dict[str, Any] = {"type": "string"}
    if parameter.default is not None:
        value["default"] = parameter.default
    return {
        "name": parameter.name,
        "in": "query",
        "description": parameter.text,
        "required": parameter.required,
        "schema": {"type": "array", "items": value} if parameter.repeatable else value,
    }


def _json(text: str, answer: type[msgspec.Struct]) -> dict[str, Any]:
    schema = {"$ref": _REFERENCE.format(name=answer.__name__)}
    return {"description": text, "content": {"application/json": {"schema": schema}}}


def _other(summary: str, responses: dict[str, Any]) -> dict[str, Any]:
    return {"get": {"summary": summary, "responses": responses}}


_OTHERS: Final = {
    PATH: _other(
        "This document.",
        {"200": {"description": "OpenAPI 3.1.", "content": {"application/json": {}}}},
    ),
    "/metrics": _other(
        "Series for Prometheus.",
        {
            "200": {
                "description": "The text format, or OpenMetrics if the Accept header prefers it.",
                "content": {"text/plain": {}, "application/openmetrics-text": {}},
            }
        },
    ),
    "/livez": _other("Whether the process is alive.", {"200": _json("It is.", Alive)}),
    "/readyz": _other(
        "Whether the process is ready.",
        {"200": _json("It is.", Readiness), "503": _json("It is not, and why.", Readiness)},
    ),
}
