"""The OpenAPI 3.1 document, made from the table of routes and the types of their answers."""

from collections.abc import Sequence
from typing import Any, Final

import msgspec

from .parameters import SUFFIX, QueryParameter
from .probes import Alive, Readiness
from .route import TOTAL, Route
from .schemas import EXAMPLES, REFERENCE, TIME, described

PATH: Final = "/api/v1/openapi.json"


class Error(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Why the request was not answered."""

    error: str


def document(version: str, routes: Sequence[Route]) -> bytes:
    """The document, encoded."""
    types: list[type[msgspec.Struct]] = []
    paths: dict[str, dict[str, Any]] = {}
    for route in routes:
        types += [route.answer] if route.body is None else [route.body, route.answer]
        for path in route.paths:
            operations = {**paths.get(path, {}), route.method.lower(): _operation(route, path)}
            paths[path] = dict(sorted(operations.items()))
    return msgspec.json.encode(
        {
            "openapi": "3.1.0",
            "info": {
                "title": "relevanced",
                "version": version,
                "description": "Search quality in sliding windows of event time.",
            },
            "paths": paths | _OTHERS,
            "components": {"schemas": described([*types, Alive, Readiness, Error])},
        }
    )


def _operation(route: Route, path: str) -> dict[str, Any]:
    given: dict[str, Any] = {"parameters": list(map(_parameter, route.parameters))}
    if route.body is not None:
        given["requestBody"] = {"required": True, **_content(route.body)}
    answers = {status: _json(text, route.answer) for status, text in route.statuses.items()}
    if path.endswith(SUFFIX):
        answers = {200: _csv(route)}
    if route.load is None:
        says = "The client has this answer: If-None-Match contains its ETag."
        answers[304] = {"description": says}
    answers |= {status: _json(text, Error) for status, text in route.errors.items()}
    return {
        "summary": route.summary,
        "operationId": route.operation or _operation_id(path),
        **given,
        "responses": {str(status): described for status, described in answers.items()},
    }


def _operation_id(path: str) -> str:
    """Such as `scores`, `scores_csv`, `experiments_buckets`, and `index` for the list of all."""
    parts = path.removeprefix("/api/v1/").replace(".", "/").replace("-", "_").split("/")
    return "_".join(part for part in parts if part and not part.startswith("{")) or "index"


def _csv(route: Route) -> dict[str, Any]:
    assert route.table is not None, "only tables have this path"
    rows, row = route.table
    described: dict[str, Any] = {
        "description": f"`{rows}` of the JSON answer, a line for each {row.__name__}.",
        "content": {"text/csv": {"schema": {"type": "string"}}},
    }
    if route.total is not None:
        says = "How many rows the list has in all: `listed` of the JSON answer."
        described["headers"] = {TOTAL: {"description": says, "schema": {"type": "integer"}}}
    return described


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


def _other(summary: str, responses: dict[str, Any], *given: dict[str, Any]) -> dict[str, Any]:
    parameters = {"parameters": list(given)} if given else {}
    return {"get": {"summary": summary, **parameters, "responses": responses}}


_HTML: Final = {"description": "It.", "content": {"text/html": {}}}


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
    "/runbook": _other("The runbook as a web page.", {"200": _HTML}),
    "/runbook/{alert}": _other(
        "The section of an alert.",
        {"200": _HTML, "404": {**_HTML, "description": "There is no such section."}},
        _parameter(QueryParameter("alert", "Name of the alert.", in_path=True)),
    ),
    "/livez": _other("Whether the process is alive.", {"200": _json("It is.", Alive)}),
    "/readyz": _other(
        "Whether the process is ready.",
        {"200": _json("It is.", Readiness), "503": _json("It is not, and why.", Readiness)},
    ),
    "/startedz": _other(
        "Whether the process was ever able to begin its work, whatever fails since.",
        {"200": _json("It was.", Readiness), "503": _json("Not yet, and why.", Readiness)},
    ),
}
