"""The benchmark measures real runs, and its comparison detects planted changes."""

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.bench import judged_cost, results
from tests.bench.__main__ import run
from tests.bench.compare import verdicts
from tests.bench.cpu import Sample, usage_between
from tests.bench.effort import Effort
from tests.bench.findings import Curve, Finding, PartResult, number, ratio, together
from tests.bench.growth import curve_of
from tests.bench.join_job import AFTER_MS, expected
from tests.bench.traffic import NEW_QUERIES, Traffic, query_text, records
from tests.services.kafka_server import Broker

SMOKE = Effort(0.002)
SMOKE_PARTS = (
    *("end_to_end", "redis", "growth", "freshness", "live"),
    *("exposition", "stalls", "replay", "mapping", "queries", "judged"),
)


def results_of(*findings: Finding) -> results.Results:
    return results.merged(None, {"part": PartResult(findings)})


async def test_numbers_come_from_real_runs(kafka: Broker, tmp_path: Path) -> None:
    path = tmp_path / "results.json"
    await run(kafka, tmp_path, SMOKE_PARTS, SMOKE, path)
    stored = results.decode(path.read_bytes())
    values = {name: finding.value for name, finding in stored.findings.items()}
    # Of a few records no pane settles, and what two runs differ by is chance.
    differences = ("growth.", "queries.open_bytes", "queries.new_mib", "queries.new_redis")
    differences += ("end_to_end.stage_share", "live.partition_ms")
    assert [
        name for name, value in values.items() if value <= 0 and not name.startswith(differences)
    ] == []
    worker, floor = (values[f"end_to_end.batch_10000.{of}_us"] for of in ("worker", "floor"))
    assert values["end_to_end.batch_10000.to_floor"] == pytest.approx(worker / floor)
    assert worker > floor, "the worker does more than decode"
    assert values["redis.open_bytes"] < 1000 < values["redis.commands"]
    assert values["mapping.segment_us"] > values["mapping.own_us"] > values["mapping.native_us"] / 2
    assert 5 < values["queries.row_bytes"] < 200 and values["queries.block_bytes"] < 40
    assert 0.1 < values["freshness.at_50.p50_s"] <= values["freshness.at_50.p99_s"] < 30
    assert len(stored.curves["segments"].x) == 2 and (tmp_path / "growth.svg").exists()


def test_job_of_the_peers_counts_each_click_in_time_once() -> None:
    shown = {"type": "impression", "attributes": {"country": "DE"}}
    click = {"type": "feedback", "kind": "click"}
    events: list[dict[str, Any]] = [
        {**shown, "impression_id": "a", "timestamp": 60_000},
        {**shown, "impression_id": "b", "timestamp": 119_999},
        {**click, "impression_id": "a", "timestamp": 60_000 + AFTER_MS, "rank": 3},
        {**click, "impression_id": "a", "timestamp": 60_001 + AFTER_MS, "rank": 1},
        {**click, "impression_id": "b", "timestamp": 120_000, "rank": 2},
        {**click, "impression_id": "b", "timestamp": 130_000, "rank": 2},
        {**click, "impression_id": "b", "timestamp": 130_000, "rank": 1, "kind": "purchase"},
    ]
    ranks, ndcgs = 10**9 // 3 + 10**9 // 2, 500_000_000 + 630_929_754
    assert expected(map(msgspec.json.encode, events)) == {("DE", 60_000): (2, ranks, ndcgs)}


def test_new_results_of_a_part_replace_all_its_former_results() -> None:
    before = {
        "one": PartResult([number("kept", "", [1], ""), number("gone", "", [1], "")]),
        "two": PartResult([number("other", "", [1], "")]),
    }
    merged = results.merged(
        results.merged(None, before), {"one": PartResult([number("kept", "", [2], "")])}
    )
    assert {name: finding.value for name, finding in merged.findings.items()} == {
        "kept": 2,
        "other": 1,
    }


def test_runs_of_a_part_are_told_as_the_median_of_all() -> None:
    runs = [
        PartResult([number("a", "", values, "")], [Curve("c", "", (1.0, 2.0), points, slope)])
        for values, points, slope in (
            ([1, 9], (1.0, 5.0), 0.1),
            ([3], (2.0, 4.0), 0.3),
            ([2, 8], (9.0, 6.0), 0.2),
        )
    ]
    told = together(runs)
    assert [(one.value, one.values) for one in told.findings] == [(3, (1, 9, 3, 2, 8))]
    assert [(curve.cpu_us, curve.slope) for curve in told.curves] == [((2.0, 5.0), 0.2)]


def test_runs_made_apart_are_combined_part_by_part() -> None:
    first = {
        "one": PartResult([number("a", "", [1, 9], "")]),
        "two": PartResult([number("b", "", [7], "")]),
    }
    second = {"one": PartResult([number("a", "", [2], "")])}
    both = results.combined([results.merged(None, found) for found in (first, second)])
    assert {name: found.values for name, found in both.findings.items()} == {
        "a": (1, 9, 2),
        "b": (7,),
    }
    assert both.findings["a"].value == 2


def test_traffic_is_as_described() -> None:
    generated = list(records(Traffic(records=20_000), end_ms=1_795_176_000_000))
    sizes = [len(record.value) for record in generated]
    impressions = [
        record for record in generated if record.value.startswith(b'{"type":"impression"')
    ]
    assert sum(sizes) / len(sizes) == pytest.approx(220, abs=5)
    assert len(impressions) == round(0.55 * len(generated))
    assert {record.partition for record in generated} == set(range(8))
    assert [record.timestamp for record in generated] == sorted(
        record.timestamp for record in generated
    )


def test_half_of_the_searches_are_judged() -> None:
    traffic = Traffic(records=20_000, queries=judged_cost.QUERIES)
    judged = {*map(query_text, range(judged_cost.judged_ranks(0.5)))}
    values = [json.loads(record.value) for record in records(traffic, 10**12)]
    searched = [value["query"] for value in values if value["type"] == "impression"]
    share = sum(query in judged for query in searched) / len(searched)
    assert share == pytest.approx(0.5, abs=0.02)


def test_queries_change_nothing_else_of_the_traffic() -> None:
    plain, searched, new = (
        [record.value for record in records(Traffic(records=500, queries=queries), 10**12)]
        for queries in (0, 100, NEW_QUERIES)
    )
    cut = [re.sub(rb',"query":"[^"]+","user_id":"user-[0-9]+"', b"", value) for value in searched]
    assert cut == plain
    texts = [json.loads(value).get("query") for value in new]
    assert len({*texts} - {None}) == sum(text is not None for text in texts) > 200


def test_traffic_is_the_same_every_time() -> None:
    traffic = Traffic(records=500)
    assert list(records(traffic, 10**12)) == list(records(traffic, 10**12))


def test_start_up_is_not_measured() -> None:
    samples = [Sample(0, 0.1), Sample(0, 3.0), Sample(20, 4.0), Sample(60, 4.4), Sample(100, 4.8)]
    measured = usage_between(samples, 100)
    assert (measured.events, measured.cpu_s) == (80, pytest.approx(0.8))


def test_run_of_one_step_is_rejected() -> None:
    with pytest.raises(ValueError, match="100 events were done in one step"):
        usage_between([Sample(0, 0.1), Sample(100, 3.0)], 100)


@pytest.mark.parametrize(("now", "bad"), [(1.0, False), (1.14, False), (1.16, True)])
def test_ratio_15_percent_worse_fails(now: float, bad: bool) -> None:
    before, after = (results_of(ratio("a", "a", [(x, 1.0)])) for x in (1.0, now))
    assert [found for found, _ in verdicts(before, after)] == [bad]


def test_lower_is_worse_where_higher_is_better() -> None:
    finding = ratio("a", "a", [(10.0, 1.0)], higher_is_better=True)
    ((worse, _),) = verdicts(results_of(finding), results_of(replace(finding, value=8.0)))
    assert worse


def test_times_are_not_compared() -> None:
    before, after = (results_of(number("a", "a", [s], "s")) for s in (1.0, 9.0))
    assert verdicts(before, after) == []


def test_missing_finding_fails() -> None:
    assert verdicts(results_of(ratio("a", "a", [(1.0, 1.0)])), results_of())[0][0]


def test_slope_is_that_of_the_logarithms() -> None:
    assert curve_of("a", "a", [10, 100, 1000], [2.0, 20.0, 200.0]).slope == pytest.approx(1.0)


def test_results_are_read_as_written(tmp_path: Path) -> None:
    written = results_of(ratio("a", "a", [(3.0, 2.0), (1.0, 2.0)], goal=1.5))
    results.write(tmp_path / "a.json", written)
    assert results.read(tmp_path / "a.json") == written
