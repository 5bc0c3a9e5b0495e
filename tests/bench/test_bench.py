"""The benchmark measures what it says: real runs, and rules that a planted change breaks."""

from dataclasses import replace
from pathlib import Path

import pytest

from tests.bench import results
from tests.bench.__main__ import run
from tests.bench.compare import verdicts
from tests.bench.cpu import Sample, stretch
from tests.bench.effort import Effort
from tests.bench.findings import Finding, Found, number, ratio
from tests.bench.growth import curve_of
from tests.bench.traffic import Traffic, records
from tests.services.kafka_server import Broker

SMOKE = Effort(0.002)
SMOKE_PARTS = ("end_to_end", "redis", "growth", "freshness", "exposition")


def results_of(*findings: Finding) -> results.Results:
    return results.merged(None, {"part": Found(findings)})


async def test_numbers_come_from_real_runs(kafka: Broker, tmp_path: Path) -> None:
    kept = tmp_path / "results.json"
    await run(kafka, tmp_path, SMOKE_PARTS, SMOKE, kept)
    told = results.decode(kept.read_bytes())
    values = {name: finding.value for name, finding in told.findings.items()}
    assert all(value > 0 for name, value in values.items() if not name.startswith("growth."))
    worker, floor = (values[f"end_to_end.batch_10000.{one}_us"] for one in ("worker", "floor"))
    assert values["end_to_end.batch_10000.to_floor"] == pytest.approx(worker / floor)
    assert worker > floor, "it does more than decode"
    assert values["redis.open_bytes"] < 1000 < values["redis.commands"]
    assert 0.1 < values["freshness.at_50.p50_s"] <= values["freshness.at_50.p99_s"] < 30
    assert len(told.curves["segments"].x) == 2 and (tmp_path / "growth.svg").exists()


def test_a_part_that_is_renewed_leaves_nothing_of_what_it_told_before() -> None:
    before = {
        "one": Found([number("kept", "", [1], ""), number("gone", "", [1], "")]),
        "two": Found([number("other", "", [1], "")]),
    }
    known = results.merged(
        results.merged(None, before), {"one": Found([number("kept", "", [2], "")])}
    )
    assert {name: told.value for name, told in known.findings.items()} == {"kept": 2, "other": 1}


def test_traffic_is_as_described() -> None:
    told = list(records(Traffic(records=20_000), end_ms=1_795_176_000_000))
    sizes = [len(record.value) for record in told]
    shown = [record for record in told if record.value.startswith(b'{"type":"impression"')]
    assert sum(sizes) / len(sizes) == pytest.approx(220, abs=5)
    assert len(shown) == round(0.55 * len(told))
    assert {record.partition for record in told} == set(range(8))
    assert [record.timestamp for record in told] == sorted(record.timestamp for record in told)


def test_traffic_is_frozen() -> None:
    traffic = Traffic(records=500)
    assert list(records(traffic, 10**12)) == list(records(traffic, 10**12))


def test_start_up_is_not_measured() -> None:
    samples = [Sample(0, 0.1), Sample(0, 3.0), Sample(20, 4.0), Sample(60, 4.4), Sample(100, 4.8)]
    measured = stretch(samples, 100)
    assert (measured.events, measured.cpu_s) == (80, pytest.approx(0.8))


def test_run_of_one_step_is_refused() -> None:
    with pytest.raises(ValueError, match="100 events were done in one step"):
        stretch([Sample(0, 0.1), Sample(100, 3.0)], 100)


@pytest.mark.parametrize(("now", "bad"), [(1.0, False), (1.14, False), (1.16, True)])
def test_ratio_15_percent_worse_fails(now: float, bad: bool) -> None:
    before, after = (results_of(ratio("a", "a", [(x, 1.0)])) for x in (1.0, now))
    assert [found for found, _ in verdicts(before, after)] == [bad]


def test_less_of_what_should_be_more_is_worse() -> None:
    one = ratio("a", "a", [(10.0, 1.0)], higher_is_better=True)
    told = verdicts(results_of(one), results_of(replace(one, value=8.0)))
    assert told[0][0]


def test_times_are_not_compared() -> None:
    before, after = (results_of(number("a", "a", [s], "s")) for s in (1.0, 9.0))
    assert verdicts(before, after) == []


def test_number_that_is_missing_fails() -> None:
    assert verdicts(results_of(ratio("a", "a", [(1.0, 1.0)])), results_of())[0][0]


def test_slope_is_that_of_logarithms() -> None:
    assert curve_of("a", "a", [10, 100, 1000], [2.0, 20.0, 200.0]).slope == pytest.approx(1.0)


def test_results_survive_their_file(tmp_path: Path) -> None:
    told = results_of(ratio("a", "a", [(3.0, 2.0), (1.0, 2.0)], goal=1.5))
    results.write(tmp_path / "a.json", told)
    assert results.read(tmp_path / "a.json") == told
