"""The process's own series: those of the table, each removed with what it describes."""

import math
import time
from typing import get_args

import pytest

from relevanced.daemon.telemetry import (
    ADVICE,
    BATCH_BUCKETS_S,
    COMMIT_OUTCOMES,
    FAMILIES,
    KafkaFault,
    Telemetry,
)
from tests.lane_views import read_text

SUFFIXES = ("_total", "_info", "_bucket", "_count", "_sum")


def series(telemetry: Telemetry) -> dict[str, list[tuple[dict[str, str], float]]]:
    found: dict[str, list[tuple[dict[str, str], float]]] = {}
    for family in read_text(telemetry.render(False)):
        for sample in family.samples:
            found.setdefault(sample.name, []).append((sample.labels, sample.value))
    return found


def full() -> Telemetry:
    """A Telemetry with a sample in every family."""
    telemetry = Telemetry("1.2.3")
    for gauge in (
        telemetry.lag_records,
        telemetry.watermark_s,
        telemetry.watermark_ahead_s,
        telemetry.partition_unreadable,
        telemetry.source_stopped,
    ):
        gauge.labels("t", "0").set(1)
    for gauge in (
        telemetry.open_impressions,
        telemetry.waiting_feedback,
        telemetry.lane_stopped,
        telemetry.lane_damaged,
        telemetry.lost_history_s,
        telemetry.lane_rebuilt_from_s,
        telemetry.lifted_partitions,
    ):
        gauge.labels("0").set(1)
    telemetry.batch_duration_s.observe(0.2)
    for counter in (telemetry.mapped_records, telemetry.mapped_slowly, telemetry.rekeyed_events):
        counter.labels("t").inc()
    telemetry.rekey_messages.labels("early")
    telemetry.snapshot_errors.labels("full")
    telemetry.topics_found({"t": 4})
    telemetry.kept_out("login")
    telemetry.set_superseded(False)
    telemetry.token_asked("redis", "ok", 900.0)
    telemetry.set_eviction_policy("noeviction")
    telemetry.judged_by({"late_seconds": 600}, {"P@1": 0.01}, {("P@1", "all", "all"): 0.1})
    telemetry.links_to("https://wiki.example.com/runbook", None, None)
    telemetry.judgements_read([("2026-11-20T0000Z-a.csv", "ab", "2026-11-20T00:00:00Z")])
    telemetry.classes_read("traffic", [("2026-11-20T0000Z-a.csv", "ab", "2026-11-20T00:00:00Z")])
    return telemetry


def test_series_are_those_of_the_table() -> None:
    expected = {family.name for family in FAMILIES.values() if family.source == "process"}
    families = read_text(full().render(False))
    named = {f.name + ("_total" if f.type == "counter" else "") for f in families if f.samples}
    assert {name for name in named if not name.startswith("process_")} == expected


def test_whether_another_namespace_serves_is_said_once_it_is_known() -> None:
    """The 0 of a worker, or of an exporter without Redis, would be the last value of a retired
    installation."""
    telemetry = Telemetry("test")
    assert b"\nrelevanced_superseded " not in telemetry.render(False)
    for superseded in (True, False):
        telemetry.set_superseded(superseded)
        assert b"\nrelevanced_superseded %d.0" % superseded in telemetry.render(False)


def test_memory_has_no_bound_until_one_is_set() -> None:
    assert series(Telemetry("1.2.3"))["relevanced_memory_bound_bytes"] == [({}, math.inf)]


def test_no_two_families_share_a_name() -> None:
    bases = [
        family.name.removesuffix("_total").removesuffix("_info") for family in FAMILIES.values()
    ]
    sampled = {base + suffix for base in bases for suffix in ("", *SUFFIXES)}
    assert len(set(bases)) == len(bases)
    assert len(sampled) == len(bases) * (len(SUFFIXES) + 1)


def test_no_series_says_when_it_was_created() -> None:
    for openmetrics in (False, True):
        assert b"_created" not in full().render(openmetrics)


def test_openmetrics_text_ends_with_eof() -> None:
    assert full().render(True).endswith(b"# EOF\n")


def test_two_telemetries_share_nothing() -> None:
    one, two = Telemetry("1"), Telemetry("2")
    one.dead_letters.inc()
    assert series(two)["relevanced_dead_letters_total"] == [({}, 0.0)]
    assert series(two)["relevanced_build_info"][0][0]["version"] == "2"


def test_a_closed_lane_vanishes_and_a_stopped_one_stays() -> None:
    telemetry = full()
    telemetry.lane_closed(0)
    telemetry.partition_lost("t", 0)
    found = series(telemetry)
    assert not {"relevanced_open_impressions", "relevanced_lag_records"} & set(found)
    assert found["relevanced_lane_stopped"] == [({"lane": "0"}, 1.0)]
    assert "relevanced_source_stopped" in found, "a stage reads it, not the lane"
    telemetry.source_lost("t", 0)
    assert "relevanced_source_stopped" not in series(telemetry)


def test_a_lane_without_series_may_be_closed() -> None:
    telemetry = Telemetry("1")
    telemetry.lane_closed(0)
    telemetry.partition_lost("t", 0)
    assert not {"relevanced_open_impressions", "relevanced_lag_records"} & set(series(telemetry))


@pytest.mark.parametrize(("policy", "evicts"), [("allkeys-lru", 1.0), ("volatile-lru", 0.0)])
def test_only_policies_over_all_keys_may_evict_state(policy: str, evicts: float) -> None:
    telemetry = full()
    telemetry.set_eviction_policy(policy)
    assert series(telemetry)["relevanced_redis_may_evict_state"] == [({"policy": policy}, evicts)]


def test_a_token_ends_after_its_life_and_the_first_failure_counts_from_zero() -> None:
    telemetry = Telemetry("1.2.3")
    telemetry.token_asked("redis", "ok", 900.0)
    found, now_s = series(telemetry), time.time()
    [(labels, expiry_s)] = found["relevanced_token_expiry_timestamp_seconds"]
    assert labels == {"of": "redis"} and now_s + 890 < expiry_s <= now_s + 900
    asked = {one["outcome"]: n for one, n in found["relevanced_token_requests_total"]}
    assert asked == {"ok": 1, "failed": 0}
    telemetry.token_asked("redis", "failed", None)
    assert series(telemetry)["relevanced_token_expiry_timestamp_seconds"] == [(labels, expiry_s)]


def test_commit_outcomes_begin_at_zero() -> None:
    outcomes = series(Telemetry("1"))["relevanced_commits_total"]
    assert sorted(labels["outcome"] for labels, _ in outcomes) == [
        "already",
        "applied",
        "damaged",
        "lost",
    ]
    assert len(BATCH_BUCKETS_S) + 1 <= 12


def test_every_kafka_fault_begins_at_zero_and_comes_with_advice() -> None:
    found = series(Telemetry("1"))["relevanced_kafka_faults_total"]
    assert {labels["fault"]: value for labels, value in found} == dict.fromkeys(ADVICE, 0.0)
    assert set(get_args(KafkaFault)) == set(ADVICE)


def test_the_status_of_a_new_process_is_all_zero() -> None:
    status = Telemetry("1").status()
    assert status.commits == dict.fromkeys(COMMIT_OUTCOMES, 0)
    assert (status.lag_records, status.stopped_lanes) == ({}, ())
    assert (status.batches, status.batches_s, status.last_poll_s) == (0, 0.0, 0.0)


def test_the_status_has_the_values_of_the_series() -> None:
    telemetry = full()
    telemetry.lag_records.labels("t", "10").set(7)
    telemetry.open_impressions.labels("4").set(6)
    telemetry.lane_stopped.labels("3").set(0)
    telemetry.commits.labels("lost").inc(2)
    telemetry.snapshot_errors.labels("full").inc(3)
    status = telemetry.status()
    assert status.lag_records == {("t", 0): 1, ("t", 10): 7}
    assert (status.open_impressions, status.waiting_feedback) == (7, 1)
    assert status.stopped_lanes == (0,)
    assert status.commits == {"applied": 0, "already": 0, "lost": 2, "damaged": 0}
    assert (status.batches, status.batches_s, status.snapshot_errors) == (1, 0.2, 3)
