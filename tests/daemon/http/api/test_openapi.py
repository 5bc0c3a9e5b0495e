"""The OpenAPI document agrees with the handlers: every path, parameter and property."""

import csv
import json
from collections.abc import AsyncIterator, Iterator
from dataclasses import replace
from typing import Any, Final

import aiohttp
import numpy as np
import pytest
from jsonschema import Draft202012Validator

from relevanced.daemon.experiments import Tallies, Tracking
from relevanced.daemon.exporter import Condition
from relevanced.daemon.http import (
    EXAMPLES,
    ROUTES,
    TEXTS,
    Estimate,
    Hours,
    HttpServer,
    Route,
    field_docs,
    openapi,
)
from relevanced.daemon.storage import pack_page
from relevanced.daemon.telemetry import Telemetry
from relevanced.daemon.views import LaneFiles
from tests.arms import SPEC, dealt_arms
from tests.judged_lanes import PLAN as JUDGED, entry, lane as judged_lane, scored, steady
from tests.lane_views import NOW_MS, PLAN, Shown, lane_view, pages_of, published_of, reading_of

DOCUMENT: Final[dict[str, Any]] = json.loads(openapi.document("1.2.3", ROUTES))
GOOD: Final = {
    "metric": "P@1",
    "judged_metric": "P@5",
    "grouping": "country",
    "segment": "DE",
    "window": "1m",
    "view": "live",
    "against": "hour",
    "from": "2026-11-20T00:00:00Z",
    "to": "2026-11-21T00:00:00Z",
    "exclude": "2026-11-21/2026-11-22",
}
FREE: Final = [route for route in ROUTES if route.load is None]
"""tests/services/test_markers.py and tests/daemon/http/test_queries.py have the others."""
LOADED: Final = {path for route in ROUTES if route.load is not None for path in route.paths}
OPERATIONS: Final = [
    (path, name, parameter)
    for path, item in DOCUMENT["paths"].items()
    if path not in LOADED
    for name, parameter in [(None, None)]
    + [(one["name"], one) for one in item["get"].get("parameters", [])]
]


class Served:
    """A server with published scores, and its answers."""

    def __init__(self, server: HttpServer, session: aiohttp.ClientSession) -> None:
        self.server = server
        self._session = session

    async def get(self, path: str, query: list[tuple[str, str]]) -> tuple[int, Any]:
        url = f"http://127.0.0.1:{self.server.port}{path.format(experiment=SPEC.name)}"
        async with self._session.get(url, params=query) as response:
            is_json = response.content_type == "application/json"
            return response.status, await (response.json() if is_json else response.text())


@pytest.fixture
async def served() -> AsyncIterator[Served]:
    telemetry = Telemetry("1.2.3")
    telemetry.lag_records.labels("events", "0").set(7)
    telemetry.lane_stopped.labels("0").set(1)
    telemetry.batch_duration_s.observe(0.1)
    telemetry.last_poll_s.set(1_795_176_000)
    server = HttpServer(telemetry, "all", clock=lambda: 1_795_176_001.5)
    counts = {"events": {"impression": 2, "feedback": 1}, "rejected": {"not_json": 1}}
    lanes = [lane_view([Shown(), Shown(country="DE"), Shown(country="DE")], counts=counts)]
    experiments = {SPEC.name: Tallies(SPEC.digest, dealt_arms())}
    plan = replace(PLAN, tracking=Tracking({SPEC.name: SPEC}, 0, SPEC))
    hour = {
        NOW_MS - 7_200_000: {0: pack_page(pages_of(np.array([Shown().row()] * 3, np.int64))[0])}
    }
    lanes = [
        replace(lane, experiments=experiments, hours=hour, settled_before=NOW_MS) for lane in lanes
    ]
    plan = replace(plan, judged=JUDGED.judged, history_hours=24 * 9)
    graded = judged_lane(steady(24 * 8), LaneFiles(0, (entry(0), entry(1, "b"))), plan=plan)
    reading = reading_of(lanes, plan)
    reading = replace(reading, scores=(*reading.scores, scored(graded, plan=plan)))
    server.published = published_of(reading, Condition("lanes", False, "one stands"))
    await server.start("127.0.0.1", 0)
    async with aiohttp.ClientSession() as session:
        yield Served(server, session)
    await server.stop()


def faults(path: str, status: int, body: Any) -> list[str]:
    """What the document does not allow in an answer."""
    response = DOCUMENT["paths"][path]["get"]["responses"][str(status)]
    schema = response["content"]["application/json"]["schema"]
    whole = {"components": DOCUMENT["components"], **schema}
    return [error.message for error in Draft202012Validator(whole).iter_errors(body)]


def query_of(route: Route, *names: str) -> list[tuple[str, str]]:
    """Good values of the required parameters and of these; those in the path are given."""
    return [
        (p.name, GOOD[p.name])
        for p in route.parameters
        if not p.in_path and (p.required or p.name in names)
    ]


def references(node: Any) -> Iterator[str]:
    if isinstance(node, dict):
        for key, value in node.items():
            yield from [value] if key == "$ref" else references(value)
    elif isinstance(node, list):
        for value in node:
            yield from references(value)


def test_the_document_is_whole() -> None:
    assert DOCUMENT["openapi"] == "3.1.0" and DOCUMENT["info"]["version"] == "1.2.3"
    schemas = DOCUMENT["components"]["schemas"]
    for name, schema in schemas.items():
        Draft202012Validator.check_schema(schema)
        assert schema["description"], name
        assert schema.get("additionalProperties") is False, name
    named = {name.removeprefix("#/components/schemas/") for name in references(DOCUMENT)}
    assert named == set(schemas)


async def test_every_path_is_documented_and_every_document_path_served(served: Served) -> None:
    runner = served.server._runner
    assert runner is not None and runner.app is not None
    paths = {resource.canonical for resource in runner.app.router.resources()}
    of_people = {path for path in paths if path.startswith(("/page/", "/-/"))}
    of_people |= {"/", "/runbook/"}
    assert paths - of_people == set(DOCUMENT["paths"])


def test_every_property_has_a_description_a_type_and_a_valid_example() -> None:
    components = {"components": DOCUMENT["components"]}
    for name, schema in DOCUMENT["components"]["schemas"].items():
        for field, value in schema["properties"].items():
            where = f"{name}.{field}"
            assert value.get("description"), f"{where}: needs a docstring, or a text in schemas"
            assert value.keys() & {"type", "enum", "anyOf", "$ref"}, where
            (example,) = value["examples"]
            faults = [*Draft202012Validator(value | components).iter_errors(example)]
            assert not faults, (where, example, faults[0].message)


def test_every_parameter_has_a_description_and_an_example() -> None:
    for path, item in DOCUMENT["paths"].items():
        for operation in item.values():
            for parameter in operation.get("parameters", []):
                where = f"{path}, {parameter['name']}"
                assert parameter["description"] and parameter["schema"], where
                assert parameter["example"], where


def test_docstrings_come_before_shared_texts_and_into_one_line() -> None:
    docs = field_docs(Estimate)
    assert docs["mean"] == "null where no impression has a defined value." and "scored" not in docs
    (schema,) = (DOCUMENT["components"]["schemas"][name] for name in ["Estimate"])
    assert schema["properties"]["mean"]["description"] == docs["mean"]
    assert schema["properties"]["scored"]["description"] == TEXTS["scored"]
    assert (
        "\n"
        not in DOCUMENT["components"]["schemas"]["Change"]["properties"]["verdict"]["description"]
    )
    assert field_docs(Hours)["from"] == "Start of the first hour that was asked for."


def test_no_shared_text_or_example_is_left_over() -> None:
    schemas = DOCUMENT["components"]["schemas"]
    known = {field for schema in schemas.values() for field in schema["properties"]}
    known |= {f"{name}.{field}" for name, s in schemas.items() for field in s["properties"]}
    operations = [each for path in DOCUMENT["paths"].values() for each in path.values()]
    asked = {one["name"] for each in operations for one in each.get("parameters", ())}
    assert not TEXTS.keys() - known and not EXAMPLES.keys() - known - asked


@pytest.mark.parametrize("route", FREE, ids=lambda route: str(route.path))
async def test_answers_are_as_documented(served: Served, route: Route) -> None:
    for query in (query_of(route), query_of(route, *GOOD)):
        status, body = await served.get(route.path, query)
        assert (status, faults(route.path, status, body)) == (200, [])


@pytest.mark.parametrize("route", [r for r in FREE if r.table], ids=lambda r: str(r.path))
async def test_a_table_is_the_same_as_csv(served: Served, route: Route) -> None:
    """A header, and a line for each row."""
    assert route.table is not None
    _, body = await served.get(route.path, query_of(route))
    status, text = await served.get(f"{route.path}.csv", query_of(route))
    lines = list(csv.DictReader(text.splitlines()))
    assert (status, len(lines)) == (200, len(body[route.table[0]]))
    assert [list(line) for line in lines[:1]] == [
        list(flat(row)) for row in body[route.table[0]][:1]
    ]
    assert lines == [
        {name: "" if value is None else str(value) for name, value in flat(row).items()}
        for row in body[route.table[0]]
    ]


def flat(row: dict[str, Any], before: str = "") -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, value in row.items():
        if isinstance(value, dict):
            found |= flat(value, f"{before}{name}_")
        else:
            found[f"{before}{name}"] = value
    return found


async def test_the_index_lists_every_path(served: Served) -> None:
    _, body = await served.get("/api/v1/", [])
    listed = {one["path"] for one in body["paths"]}
    assert listed == {path for path in DOCUMENT["paths"] if path.startswith("/api/v1/")} - {
        openapi.PATH
    }


@pytest.mark.parametrize("path", ["/livez", "/readyz"])
async def test_probes_are_as_documented(served: Served, path: str) -> None:
    status, body = await served.get(path, [])
    assert faults(path, status, body) == []


@pytest.mark.parametrize(("path", "name", "parameter"), OPERATIONS)
async def test_parameters_are_as_documented(
    served: Served, path: str, name: str | None, parameter: dict[str, Any] | None
) -> None:
    route = next((route for route in ROUTES if path in route.paths), None)
    if route is None:
        assert parameter is None or parameter["in"] == "path"
        return
    if name is None or parameter is None:
        status, body = await served.get(path, [*query_of(route), ("colour", "red")])
        assert status == 400 and "colour: must be one of" in body["error"]
        return
    if parameter["in"] == "path":
        status, body = await served.get(path, [(name, "other")])
        assert status == 400 and "must be given once" in body["error"]
        return
    query = query_of(route, name)
    twice, _ = await served.get(path, [*query, (name, GOOD[name])])
    assert twice == (200 if parameter["schema"]["type"] == "array" else 400)
    missing, _ = await served.get(path, [one for one in query if one[0] != name])
    assert missing == (400 if parameter["required"] else 200)


@pytest.mark.parametrize(
    ("path", "query", "status", "message"),
    [
        ("history", "metric=P%409&window=1m", 400, "metric=P@9: must be one of P@1; RR@10"),
        ("history", "window=1m", 400, "metric: must be given, one of P@1; RR@10; nDCG@10"),
        ("history", "metric=P%401&window=1m&window=10m", 400, "window=1m, 10m: must be given once"),
        ("history", "metric=P%401&window=1m&grouping=country&segment=XX", 404, "segment=XX: no"),
        ("changes", "window=1m&view=dead", 400, "view=dead: must be one of live; settled"),
        ("segments", "grouping=all", 400, "grouping: must be one of none"),
        ("hours", "from=today", 400, "from=today: must be a time with its zone"),
        ("hours", "from=2026-11-21T00:00:00Z&to=2026-11-20T00:00:00Z", 400, "from=2026-11-21"),
        ("hours", "to=9999-12-31T23:59:59Z", 400, "to=9999-12-31T23:59:59Z: must be a time"),
        ("experiments/none/buckets", "", 404, "experiment=none: is not tracked"),
        ("experiments/none/over-time", "", 404, "experiment=none: is not tracked"),
    ],
)
async def test_errors_show_the_value_and_the_rule(
    served: Served, path: str, query: str, status: int, message: str
) -> None:
    path = f"/api/v1/{path}"
    pairs = [(name, value.replace("%40", "@")) for name, value in _pairs(query)]
    found, body = await served.get(path, pairs)
    documented = path.replace("/none/", "/{experiment}/")
    assert (found, faults(documented, status, body)) == (status, [])
    assert body["error"].startswith(message)


def _pairs(query: str) -> list[tuple[str, str]]:
    return [
        (name, value) for name, _, value in (one.partition("=") for one in query.split("&") if one)
    ]


async def test_any_process_tells_its_health_at_any_time() -> None:
    server = HttpServer(Telemetry("1"), "worker")
    await server.start("127.0.0.1", 0)
    async with aiohttp.ClientSession() as session:
        served = Served(server, session)
        status, body = await served.get("/api/v1/health", [])
        elsewhere, refusal = await served.get("/api/v1/segments", [])
    await server.stop()
    assert (status, faults("/api/v1/health", status, body)) == (200, [])
    assert (body["scores"], body["ready"], body["as_of"]) == ("elsewhere", False, None)
    assert elsewhere == 404 and "role worker serves no scores" in refusal["error"]


async def test_health_is_what_the_process_knows(served: Served) -> None:
    _, body = await served.get("/api/v1/health", [])
    assert (body["behind_seconds"], body["settling_seconds"]) == (1.5, 64)
    assert body["work"]["lag_records"] == 7 and body["work"]["stopped_lanes"] == [0]
    assert body["work"]["batches"] == 1 and body["work"]["batch_seconds"] == 0.1
    assert body["events"]["rejected"] == {"not_json": 1}
    assert body["conditions"] == [{"name": "lanes", "ok": False, "detail": "one stands"}]
    assert [one["metric"] for one in body["metrics"]] == ["P@1", "RR@10", "nDCG@10"]
