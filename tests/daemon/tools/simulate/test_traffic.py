"""The traffic model: seeded, in order, at its rate, with effects of the stated size."""

import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from itertools import islice, takewhile
from random import Random
from typing import Final

import msgspec
import numpy as np
import pytest

from relevanced.daemon.events import Feedback, Impression, Limits, decoder
from relevanced.daemon.tools.traffic import (
    BREAKAGES,
    EXPERIMENT,
    Breakage,
    BrokenQueries,
    Faults,
    NativeEvent,
    Regression,
    Traffic,
    TrafficStream,
    generate_events,
    ideal_quality,
    ordinary_quality,
    parse_queries,
    shuffled,
    shuffled_quality,
    variant_of,
)
from relevanced.metrics import Lists, parse

START_MS: Final = 1_795_176_000_000
GRADES: Final = {"click": 1, "add_to_cart": 2, "purchase": 3}
HOUR_S: Final = 3600
BLUE_LAMPS: Final = [f"blue {kind} lamp" for kind in ("running", "kids", "outdoor", "office")]


def first(count: int, traffic: Traffic) -> list[tuple[int, NativeEvent]]:
    return list(islice(generate_events(traffic, START_MS), count))


def within(seconds: float, traffic: Traffic) -> Iterator[NativeEvent]:
    end_ms = START_MS + seconds * 1000
    stream = takewhile(lambda pair: pair[0] < end_ms, generate_events(traffic, START_MS))
    return (event for _, event in stream)


def lists_by(
    key: Callable[[NativeEvent], str], seconds: float, traffic: Traffic
) -> dict[str, Lists]:
    """Gains of all impressions that had half an hour to receive feedback."""
    gains: dict[str, list[float]] = {}
    groups: dict[str, list[str]] = defaultdict(list)
    for event in within(seconds, traffic):
        impression_id = event["impression_id"]
        if event["type"] == "impression":
            gains[impression_id] = [0.0] * len(event["items"])
            if event["timestamp"] < START_MS + (seconds - HOUR_S / 2) * 1000:
                groups[key(event)].append(impression_id)
        else:
            of_items, rank0 = gains[impression_id], event["rank"] - 1
            of_items[rank0] = max(of_items[rank0], GRADES[event["kind"]])
    return {
        name: Lists.of([gains[impression_id] for impression_id in ids])
        for name, ids in groups.items()
    }


def mean(name: str, lists: Lists) -> float:
    return float(np.nanmean(parse(name, max_grade=3).values(lists)))


def country(event: NativeEvent) -> str:
    return str(event["attributes"]["country"])


def variant(event: NativeEvent) -> str:
    return str(event["experiments"][EXPERIMENT])


def test_same_seed_gives_the_same_events() -> None:
    assert first(2000, Traffic(seed=7)) == first(2000, Traffic(seed=7))
    assert first(2000, Traffic(seed=7)) != first(2000, Traffic(seed=8))


def test_events_arrive_in_the_order_of_their_times() -> None:
    pairs = first(20_000, Traffic())
    arrivals = [arrival_ms for arrival_ms, _ in pairs]
    assert arrivals == sorted(arrivals)
    assert arrivals == [event["timestamp"] for _, event in pairs]
    assert arrivals[0] >= START_MS


def test_every_event_is_a_valid_native_record() -> None:
    decode = decoder("native", Limits())
    kinds: Counter[type] = Counter()
    for arrival_ms, event in first(5000, Traffic(faults=Faults(0.05, 0.05, 0.05, 0.05))):
        (decoded,) = decode(msgspec.json.encode(event), arrival_ms)
        kinds[type(decoded)] += 1
    assert set(kinds) == {Impression, Feedback}


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_rate_is_that_of_all_events(seed: int) -> None:
    hour = [event["timestamp"] for event in within(2 * HOUR_S, Traffic(seed=seed, rate=10))]
    steady = [time_ms for time_ms in hour if time_ms >= START_MS + HOUR_S * 1000]
    assert len(steady) / HOUR_S == pytest.approx(10, rel=0.08)


def test_few_users_are_busy_and_many_are_rare() -> None:
    shown = [event for _, event in first(40_000, Traffic()) if event["type"] == "impression"]
    counts = Counter(event["user_id"] for event in shown)
    busiest = sum(count for _, count in counts.most_common(len(counts) // 100))
    assert busiest > 0.15 * len(shown)
    assert len(counts) > 4000


def test_segments_keep_their_shares() -> None:
    shown = [event for _, event in first(60_000, Traffic()) if event["type"] == "impression"]
    shares = Counter(country(event) for event in shown)
    assert [name for name, _ in shares.most_common(2)] == ["US", "DE"]
    assert set(shares) == {"US", "DE", "FR", "JP", "BR"}
    assert all(len(event["items"]) in (0, 10) for event in shown)


def test_variant_belongs_to_the_user() -> None:
    shown = [event for _, event in first(20_000, Traffic()) if event["type"] == "impression"]
    for event in shown:
        assert variant(event) == variant_of(event["user_id"], EXPERIMENT, ("control", "treatment"))
    counts = Counter(variant(event) for event in shown)
    assert counts["treatment"] / len(shown) == pytest.approx(0.5, abs=0.06)


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_regression_is_seen_in_its_segment_alone(seed: int) -> None:
    before = lists_by(country, HOUR_S, Traffic(seed=seed, rate=20))
    after = lists_by(country, HOUR_S, Traffic(seed=seed, rate=20, regression=Regression(0)))
    for name, least in {"nDCG@10": 0.10, "RR@10": 0.10, "Success@10": 0.10}.items():
        assert mean(name, before["DE"]) - mean(name, after["DE"]) > least
        assert mean(name, before["US"]) == pytest.approx(mean(name, after["US"]), abs=0.04)


def test_regression_begins_at_its_time() -> None:
    traffic = Traffic(
        rate=20, regression=Regression(HOUR_S, {f"experiment:{EXPERIMENT}": "treatment"})
    )
    lists = lists_by(
        lambda event: f"{variant(event)} {event['timestamp'] >= START_MS + HOUR_S * 1000}",
        2 * HOUR_S,
        traffic,
    )
    quality = {name: mean("nDCG@10", found) for name, found in lists.items()}
    assert quality["treatment False"] == pytest.approx(quality["control False"], abs=0.03)
    assert quality["control True"] - quality["treatment True"] > 0.10


def test_regression_ends_at_its_time() -> None:
    traffic = Traffic(rate=20, regression=Regression(0, until_s=HOUR_S))
    lists = lists_by(
        lambda event: f"{country(event)} {event['timestamp'] >= START_MS + HOUR_S * 1000}",
        2 * HOUR_S,
        traffic,
    )
    quality = {name: mean("nDCG@10", found) for name, found in lists.items()}
    assert quality["US False"] - quality["DE False"] > 0.10
    assert quality["DE True"] == pytest.approx(quality["US True"], abs=0.04)


def test_a_regression_that_is_decided_late_equals_one_that_was_known() -> None:
    regression = Regression(300, until_s=600)
    known = first(16_000, Traffic(rate=20, regression=regression))
    stream = TrafficStream(Traffic(rate=20), START_MS)
    events = iter(stream)
    before = list(takewhile(lambda pair: pair[0] < START_MS + 299_000, events))
    stream.regression = regression
    assert before == known[: len(before)]
    rest = list(islice(events, len(known) - len(before) - 1))  # takewhile has taken one more
    assert rest == known[len(before) + 1 :]
    assert rest != first(16_000, Traffic(rate=20))[len(before) + 1 :]


def test_users_in_a_hurry_click_and_buy_sooner_on_the_same_lists() -> None:
    def times(delays: float) -> list[float]:
        shown: dict[str, int] = {}
        found = []
        for event in within(2 * HOUR_S, Traffic(rate=20, delays=delays)):
            name, time_ms = event["impression_id"], event["timestamp"]
            if event["type"] == "impression":
                shown[name] = time_ms
            else:
                found.append((time_ms - shown[name]) / 1000)
        return found

    usual, hurried = times(1.0), times(0.25)
    assert len(hurried) == pytest.approx(len(usual), rel=0.02)
    for share in (50, 90, 99):
        expected = np.percentile(usual, share) / 4
        assert np.percentile(hurried, share) == pytest.approx(expected, rel=0.1)


@pytest.mark.parametrize("effect", [0.06, -0.06, 0.0])
def test_experiment_has_its_true_effect(effect: float) -> None:
    lists = lists_by(variant, 2 * HOUR_S, Traffic(seed=5, rate=20, effect=effect))
    values = {name: parse("RR@10").values(found) for name, found in lists.items()}
    difference = values["treatment"].mean() - values["control"].mean()
    stderr = np.sqrt(sum(found.var() / len(found) for found in values.values()))
    assert difference == pytest.approx(effect, abs=3.5 * stderr)
    assert stderr < 0.01


def test_effect_beyond_any_ranker_is_an_error() -> None:
    with pytest.raises(ValueError, match=r"effect=0.5: must be <= 0\.\d+"):
        generate_events(Traffic(effect=0.5), START_MS)
    with pytest.raises(ValueError, match="effect=-0.9: must be >= -0"):
        generate_events(Traffic(effect=-0.9), START_MS)
    with pytest.raises(ValueError, match="rate=0: must be > 0"):
        generate_events(Traffic(rate=0), START_MS)


def test_quality_of_random_rankings_is_exact() -> None:
    """Compared with the same number, drawn: half an hour of random rankings."""
    world = Traffic().world
    assert shuffled_quality(world) < ordinary_quality(world) < ideal_quality(world)
    lists = lists_by(
        country, HOUR_S, Traffic(rate=30, zero_results=0, regression=Regression(0, {}))
    )
    values = np.concatenate([parse("RR@10").values(found) for found in lists.values()])
    stderr = values.std() / np.sqrt(len(values))
    assert values.mean() == pytest.approx(shuffled_quality(world), abs=3.5 * stderr)


def test_shuffled_ranking_shows_candidates_once() -> None:
    query = Traffic().world.queries[0]
    ranking = shuffled(Random(1), query)
    assert len(set(ranking.items)) == 10
    assert set(zip(ranking.items, ranking.attractions, strict=True)) <= set(query.candidates)


@pytest.mark.parametrize("name", ["duplicates", "disorder", "orphans", "off_list"])
def test_faults_have_their_share(name: str) -> None:
    pairs = first(30_000, Traffic(faults=Faults(**{name: 0.1})))
    clicks = [event for _, event in pairs if event.get("kind") == "click"]
    once = {msgspec.json.encode(event): (arrival, event) for arrival, event in reversed(pairs)}
    shares = {
        "duplicates": 1 - len(once) / len(pairs),
        "disorder": sum(arrival > e["timestamp"] for arrival, e in once.values()) / len(once),
        "orphans": sum("-lost" in e["impression_id"] for e in clicks) / len(clicks),
        "off_list": sum("-elsewhere" in e["item"] for e in clicks) / len(clicks),
    }
    assert shares.pop(name) == pytest.approx(0.1, abs=0.02)
    assert not any(shares.values())


def test_disorder_keeps_to_the_default_lateness() -> None:
    pairs = first(30_000, Traffic(faults=Faults(disorder=0.2)))
    latest = max(arrival_ms - event["timestamp"] for arrival_ms, event in pairs)
    assert 30_000 < latest < 60_000
    assert [arrival_ms for arrival_ms, _ in pairs] == sorted(arrival_ms for arrival_ms, _ in pairs)


def test_model_is_faster_than_20000_events_per_second() -> None:
    traffic = Traffic(rate=20_000)
    assert traffic.world.users
    began_s = time.process_time()
    first(100_000, traffic)
    assert time.process_time() - began_s < 100_000 / 20_000


def of_kinds(what: Breakage, segment: dict[str, str]) -> dict[str, dict[str, Lists]]:
    """country → lists, of the first half hours without and with this broken from the start."""
    broken = Traffic(rate=60, regression=Regression(0, segment, what))
    whole = Traffic(rate=60, regression=Regression(10 * HOUR_S, segment, what))
    return {
        "before": lists_by(country, 1.5 * HOUR_S, whole),
        "after": lists_by(country, 1.5 * HOUR_S, broken),
    }


def test_a_lost_index_shard_makes_lists_shorter() -> None:
    found = of_kinds("index", {"country": "DE"})
    lengths = {when: lists["DE"].lengths for when, lists in found.items()}
    shown = {when: values[values > 0].mean() for when, values in lengths.items()}
    assert shown["before"] == 10
    assert shown["after"] == pytest.approx(8, abs=0.3)
    others = found["after"]["US"].lengths
    assert set(others.tolist()) == {0, 10}


def test_a_lossy_tracker_loses_a_fifth_of_the_clicks_only() -> None:
    found = of_kinds("tracking", {})
    clicks = {
        when: np.mean([(one.gains > 0).sum() / len(one) for one in lists.values()])
        for when, lists in found.items()
    }
    assert clicks["after"] / clicks["before"] == pytest.approx(0.8, abs=0.04)
    assert found["after"]["DE"].lengths.mean() == pytest.approx(9.8, abs=0.2)


def test_a_segment_that_clicks_less_gets_more_of_the_searches() -> None:
    found = of_kinds("mix", {"country": "DE"})
    share = {
        when: len(lists["DE"]) / sum(map(len, lists.values())) for when, lists in found.items()
    }
    assert share["before"] == pytest.approx(0.25, abs=0.05)
    moved = (1 - share["before"]) / 3
    assert share["after"] == pytest.approx(share["before"] + moved, abs=0.03)
    for lists in found.values():
        assert mean("RR@10", lists["DE"]) < 0.85 * mean("RR@10", lists["US"])


@pytest.mark.parametrize("what", BREAKAGES)
def test_nothing_breaks_before_its_time(what: Breakage) -> None:
    """But for a mix, whose segment has always clicked less."""
    late = Traffic(regression=Regression(HOUR_S, {"country": "DE"}, what))
    plain = Traffic() if what != "mix" else late
    assert first(2000, late) == first(2000, plain)


def test_lists_of_broken_queries_are_irrelevant_from_then_on() -> None:
    broken = BrokenQueries(frozenset(BLUE_LAMPS), after_s=HOUR_S / 2, share=0.5)
    clicks: Counter[tuple[bool, bool]] = Counter()
    shown: Counter[tuple[bool, bool]] = Counter()
    of: dict[str, tuple[bool, bool]] = {}
    for event in within(HOUR_S, Traffic(rate=100, zero_results=0.0, broken_queries=broken)):
        if event["type"] == "impression":
            later = event["timestamp"] >= START_MS + HOUR_S / 2 * 1000
            of[event["impression_id"]] = kind = (event["query"] in BLUE_LAMPS, later)
            shown[kind] += 1
        elif event["kind"] == "click":
            clicks[of[event["impression_id"]]] += 1
    share = {kind: clicks[kind] / shown[kind] for kind in shown}
    assert 0.35 < share[True, True] / share[True, False] < 0.65
    assert abs(share[False, True] / share[False, False] - 1) < 0.05


def test_traffic_without_broken_queries_stays_the_same() -> None:
    later = BrokenQueries(frozenset(BLUE_LAMPS), after_s=10 * HOUR_S)
    assert first(2000, Traffic(broken_queries=later)) == first(2000, Traffic())


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "has no query"),
        (" \n\n", "has no query"),
        ("red lamp\n", "line 1: 'red lamp': must be"),
    ],
)
def test_file_of_queries_is_checked(text: str, says: str) -> None:
    with pytest.raises(ValueError, match=says):
        parse_queries(text, {"blue kids lamp"})


def test_file_of_queries_may_spell_them_otherwise() -> None:
    found = parse_queries("\n  Blue KIDS   lamp\r\n", {"blue kids lamp"})
    assert found == {"blue kids lamp"}
