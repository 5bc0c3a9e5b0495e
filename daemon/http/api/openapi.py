"""The OpenAPI 3.1 document, made from the table of routes and the types of their answers."""

from collections.abc import Sequence
from typing import Any, Final

import msgspec

from ...exporter import Condition
from . import parameters
from .markers import SPAN, MarkerAnswer, MarkerPosted, Markers, Removed
from .parameters import QueryParameter
from .queries import TABLES, TableRoute
from .route import Route
from .schemas import EXAMPLES, REFERENCE, TIME, described

PATH: Final = "/api/v1/openapi.json"


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
    404: "This process serves no scores, or there is no such segment or experiment.",
    503: "No scores here yet.",
}


def document(version: str, routes: Sequence[Route]) -> bytes:
    """The document, encoded."""
    answers = [route.answer for route in routes]
    others: list[type[msgspec.Struct]] = [
        MarkerAnswer,
        MarkerPosted,
        Markers,
        Removed,
        *(route.answer for route in TABLES.values()),
        Alive,
        Readiness,
        Error,
    ]
    schemas = described([*answers, *others])
    paths = {path: {"get": _operation(route, path)} for route in routes for path in route.paths}
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


def _operation(route: Route, path: str) -> dict[str, Any]:
    errors = ERRORS if route.of_scores else {400: ERRORS[400]}
    as_csv = path.endswith(parameters.SUFFIX)
    return {
        "summary": route.summary,
        "operationId": _operation_id(path),
        "parameters": [_parameter(parameter) for parameter in route.parameters],
        "responses": {
            "200": _csv(route) if as_csv else _json("The answer.", route.answer),
            "304": {"description": "The client has this answer: If-None-Match contains its ETag."},
            **{str(status): _json(text, Error) for status, text in errors.items()},
        },
    }


def _operation_id(path: str) -> str:
    """Such as `scores`, `scores_csv`, `experiments_buckets`, and `index` for the list of all."""
    parts = path.removeprefix("/api/v1/").replace(".", "/").replace("-", "_").split("/")
    return "_".join(part for part in parts if part and not part.startswith("{")) or "index"


def _csv(route: Route) -> dict[str, Any]:
    assert route.table is not None, "only tables have this path"
    rows, row = route.table
    return {
        "description": f"`{rows}` of the JSON answer, a line for each {row.__name__}.",
        "content": {"text/csv": {"schema": {"type": "string"}}},
    }


def _parameter(parameter: QueryParameter) -> dict[str, Any]:
    value: dict[str, Any] = {"type": "string"}
    if parameter.default is not None:
        value["default"] = parameter.default
    return {
        "name": parameter.name,
        "in": "path" if parameter.in_path else "query",
        "description": parameter.text,
        "required": parameter.required or parameter.in_path,
        "example": parameter.default or EXAMPLES.get(parameter.name, TIME),
        "schema": {"type": "array", "items": value} if parameter.repeatable else value,
    }


def _json(text: str, answer: type[msgspec.Struct]) -> dict[str, Any]:
    return {"description": text, **_content(answer)}


def _content(body: type[msgspec.Struct]) -> dict[str, Any]:
    schema = {"$ref": REFERENCE.format(name=body.__name__)}
    return {"content": {"application/json": {"schema": schema}}}


def _other(summary: str, responses: dict[str, Any]) -> dict[str, Any]:
    return {"get": {"summary": summary, "responses": responses}}


def _refusals(*statuses: int) -> dict[str, Any]:
    return {str(status): _json(MARKER_ERRORS[status], Error) for status in statuses}


MARKERS_PATH: Final = "/api/v1/markers"
MARKER_ERRORS: Final = {
    400: "A value is not allowed: the error names it and the rule.",
    403: "The client must not change markers: the error says why, and the way out.",
    404: "There is no such marker.",
    408: "The body did not arrive in time.",
    409: "The id is that of another marker, or there are too many.",
    413: "The body is too long.",
    415: "The body is not said to be JSON.",
    503: "Redis does not answer.",
}
_MARKERS: Final = {
    MARKERS_PATH: {
        "get": {
            "summary": "What people marked, by time.",
            "operationId": "markers",
            "parameters": [_parameter(parameter) for parameter in SPAN],
            "responses": {"200": _json("The markers.", Markers), **_refusals(400, 503)},
        },
        "post": {
            "summary": "Set a marker; with an id, once however often it is posted.",
            "operationId": "set_marker",
            "requestBody": {"required": True, **_content(MarkerPosted)},
            "responses": {
                "201": _json("It is stored.", MarkerAnswer),
                "200": _json("It was stored before.", MarkerAnswer),
                **_refusals(400, 403, 408, 409, 413, 415, 503),
            },
        },
    },
    MARKERS_PATH
    + "/{id}": {
        "delete": {
            "summary": "Remove a marker.",
            "operationId": "remove_marker",
            "parameters": [_parameter(QueryParameter("id", "Its id.", in_path=True))],
            "responses": {"200": _json("It is removed.", Removed), **_refusals(403, 404, 503)},
        }
    },
}


def _of_tables(path: str, route: TableRoute) -> dict[str, Any]:
    """The routes of one path of tables of queries: as JSON, and its table as CSV."""
    csv = {
        "description": f"`{route.rows}` of the JSON answer, a line for each {route.row.__name__}.",
        "content": {"text/csv": {"schema": {"type": "string"}}},
    }
    made = {path: _json("The answer.", route.answer), path + parameters.SUFFIX: csv}
    errors = {**QUERY_ERRORS, 404: route.off}
    refused = {str(status): _json(errors[status], Error) for status in sorted(errors)}
    return {
        each: {
            "get": {
                "summary": route.summary,
                "operationId": _operation_id(each),
                "parameters": [_parameter(parameter) for parameter in route.parameters],
                "responses": {"200": response, **refused},
            }
        }
        for each, response in made.items()
    }


QUERY_ERRORS: Final = {
    400: "A parameter is unknown or not allowed: the error names the rule, or the setting.",
    503: "Nothing is known yet, or Redis does not answer.",
}
_QUERIES: Final = {
    name: methods
    for path, route in TABLES.items()
    for name, methods in _of_tables(path, route).items()
}
_OTHERS: Final = {
    **_MARKERS,
    **_QUERIES,
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
