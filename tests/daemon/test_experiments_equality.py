"""The arms of experiments are the oracle's, whatever the cut into batches and the crashes."""

import json
import random
from dataclasses import asdict, replace

import numpy as np
import pytest

from relevanced.daemon.experiments import tallies
from relevanced.daemon.lane import Lane, Pages, new_lane
from relevanced.daemon.panes import PaneKey
from tests import oracle_arms
from tests.daemon.test_equality import OTHER_CONFIGS, as_log_record, assert_equals_the_oracle
from tests.oracle import OracleConfig, Record
from tests.replica import decoder_of, plan_of
from tests.seeds import seeds
from tests.streams import SMALL_CONFIG, as_plain_records, random_records, topic_names
from tests.whole_batch import process_batch

DECLARED = {"ranker": "user_id", "layout": "session", "colour": "impression"}
CONFIGS = {
    "declared and discovered": replace(
        SMALL_CONFIG,
        units=DECLARED,
        discovered=2,
        max_segments=3,
        stratify={"ranker": "country", "colour": "country,device"},
    ),
    "discovered": replace(SMALL_CONFIG, discovered=3),
    "propensities": replace(
        OTHER_CONFIGS["propensities"],
        units={"ranker": "user_id"},
        surface="country",
        propensities={"US": (1.0, 0.6, 0.1), "DE": (1.0, 0.25)},
        default_surface="DE",
        clip=5,
    ),
    "fractions": replace(OTHER_CONFIGS["fractions"], units={"layout": "session"}),
}


@pytest.fixture(autouse=True)
def short_days(monkeypatch: pytest.MonkeyPatch) -> None:
    """Days of a minute: streams are minutes long."""
    for module in (tallies, oracle_arms):
        monkeypatch.setattr(module, "DAY_MS", 60_000)


def dealt(records: list[Record], rng: random.Random, users: int = 60) -> list[Record]:
    """The same traffic, of known users in several experiments."""
    return [replace(record, value=_dealt(record.value, rng, users)) for record in records]


def _dealt(value: bytes | None, rng: random.Random, users: int = 60) -> bytes | None:
    try:
        event = json.loads(value or b"")
    except ValueError:
        return value
    if not isinstance(event, dict) or event.get("type") != "impression" or rng.random() < 0.1:
        return value
    user = rng.randrange(users)
    attributes = event.get("attributes")
    session = rng.choice((f"s{user}", user, None))
    event["user_id"] = rng.choice((f"u{user}", f"u{user}", None))
    event["attributes"] = {
        **(attributes if isinstance(attributes, dict) else {}),
        "session": session,
    }
    event["experiments"] = {
        "ranker": rng.choice(("control", "treatment")),
        "layout": f"v{rng.randrange(14)}",
        "colour": rng.choice(("control", "é", None)),
        **{f"x{rng.randrange(30)}": rng.choice("ab") for _ in range(rng.choice((0, 1, 3, 20)))},
    }
    if rng.random() < 0.4:
        event["experiments"]["ranker"] = "interleaved"
        event["teams"] = [rng.choice(("control", "new", 7, None)) for _ in event.get("items") or ()]
    return json.dumps(event).encode()


@pytest.mark.parametrize("config", CONFIGS.values(), ids=CONFIGS)
@pytest.mark.parametrize("topics", [1, 2])
@pytest.mark.parametrize("plain", [False, True], ids=["any", "plain"])
@pytest.mark.parametrize("seed", range(3))
def test_arms_equal_the_oracle_for_any_cut(
    seed: int, plain: bool, topics: int, config: OracleConfig
) -> None:
    rng = random.Random(seed)
    records = random_records(rng, topics=topics, partitions=2, events=400, config=config)
    if plain:
        config = replace(config, windows_s=(*config.windows_s, 86_400))
        records = as_plain_records(records, rng, config)
    records = dealt(records, rng)
    assert_equals_the_oracle(rng, records, topic_names(topics), config, crashes=seed > 0)
    assert any(b'"layout"' in (record.value or b"") for record in records)


def lane_after(
    records: list[Record], config: OracleConfig, size: int
) -> tuple[Lane, dict[int, Pages]]:
    """A lane to which the records of a topic-partition came in batches of so many: it, and its
    hours."""
    [topic], decode = topic_names(1), decoder_of(config)
    lane, hours = new_lane(0, plan_of(config), {topic: 0}, [topic]), dict[int, Pages]()
    for first in range(0, len(records), size):
        batch = [as_log_record(record) for record in records[first : first + size]]
        process_batch(lane, {topic: batch}, {topic: first + len(batch)}, decode)
        hours |= {start: rows.pages for start, rows in lane.hours.items()}
        lane.start_batch()
    return lane, hours


def panes_of(lane: Lane) -> dict[PaneKey, Pages]:
    return {key: rows.pages for key, rows in lane.panes.items()}


@pytest.mark.parametrize("plain", [False, True], ids=["any", "plain"])
@pytest.mark.parametrize("seed", seeds(8))
def test_a_sparse_recording_in_one_batch_is_as_if_each_pane_had_settled_alone(
    seed: int, plain: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    print(f"seed {seed}")
    rng, config = random.Random(seed), [*CONFIGS.values()][seed % len(CONFIGS)]
    monkeypatch.setattr(tallies, "DAY_MS", 14_400_000)
    config = replace(config, max_future_s=60)
    records = random_records(
        rng, topics=1, partitions=1, events=1_000, config=config, span_s=30_000
    )
    if plain:
        records = as_plain_records(records, rng, config)
    records = dealt(records, rng, users=400)
    whole, hours = lane_after(records, config, len(records))
    alone, hours_alone = lane_after(records, config, 1)
    np.testing.assert_equal(hours, {start: hours_alone[start] for start in hours})
    for of in (panes_of, lambda lane: lane.totals.pages, lambda lane: lane.counts):
        np.testing.assert_equal(of(whole), of(alone))
    found, expected = (asdict(lane.experiments)["by_name"] for lane in (whole, alone))
    np.testing.assert_equal(found, expected)
