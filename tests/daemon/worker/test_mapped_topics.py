"""Records of `[[sources]]` in a batch: counted by topic and reason, dead-lettered whole."""

import json
from typing import Any, Final

import msgspec

from relevanced.daemon.config import decoder_of, load
from relevanced.daemon.lane import Lane, new_lane
from relevanced.daemon.telemetry import Telemetry
from relevanced.daemon.worker import DeadLetter, batch, report_mapped
from tests.builders import record
from tests.daemon.mapping.preset_records import EXAMPLES

CONFIG: Final = load(
    f"""
[[sources]]
topic = "shop"
preset = "segment"
{EXAMPLES["segment"].config}
[[sources.drop]]
reason = "bot"
where = "regex(context.userAgent, '(?i)bot')"
[[sources]]
topic = "events"
preset = "native"
""",
    {},
    "test.toml",
)


def applied(topic: str, *values: Any) -> tuple[Lane, list[DeadLetter]]:
    """The lane after these records of a topic, and their dead letters."""
    lane = new_lane(0, CONFIG.plan, {"shop": 0, "events": 0}, ["shop", "events"])
    letters: list[DeadLetter] = []
    records = [record(value, offset=n, topic=topic) for n, value in enumerate(values)]
    batch.begin(lane)
    for _ in batch.steps(lane, topic, records, decoder_of(CONFIG), letters):
        pass
    batch.end(lane, {topic: len(records)})
    return lane, letters


def test_skips_and_drops_count_by_topic_and_reason_and_are_no_dead_letters() -> None:
    bot = json.loads(msgspec.json.encode(EXAMPLES["segment"].records[0]))
    for call in bot["batch"]:
        call["context"]["userAgent"] = "GoogleBot"
    lane, letters = applied("shop", *EXAMPLES["segment"].records, bot, None)
    assert lane.counts["skipped"] == {
        "shop/no_query_id": 1,
        "shop/not_mapped": 1,
        "shop/bot": 3,
        "shop/tombstone": 1,
    }
    assert not lane.counts["rejected"] and not letters
    assert lane.counts["feedback_outcomes"]["joined"] == 3


def test_a_record_of_which_a_part_is_refused_is_one_whole_dead_letter() -> None:
    good = EXAMPLES["segment"].records[0]["batch"][0]
    bad = {**good, "timestamp": "yesterday"}
    lane, (letter,) = applied("shop", {"batch": [bad, good, bad]})
    assert json.loads(letter.record.value or b"") == {"batch": [bad, good, bad]}
    assert letter.reason == "bad_timestamp"
    assert letter.detail.startswith("sources[0].impression.time (timestamp)='yesterday': must be")
    assert letter.detail.endswith("(and 1 more)")
    assert lane.counts["rejected"] == {"bad_timestamp": 2}
    assert lane.counts["impression_outcomes"]["accepted"] == 1


def test_records_of_mappings_and_those_read_slowly_are_reported_once() -> None:
    good = EXAMPLES["segment"].records[0]
    lane, _ = applied("shop", good, {"event": {}}, b"no JSON", good)
    native, _ = applied("events", {"type": "impression"})
    telemetry = Telemetry("test")
    for _ in range(2):
        for one in (lane, native):
            report_mapped(telemetry, one)
    text = telemetry.render(False).decode()
    assert 'relevanced_mapped_records_total{topic="shop"} 4.0' in text
    assert 'relevanced_mapped_slowly_total{topic="shop"} 2.0' in text
    assert 'topic="events"' not in text


def test_a_native_topic_beside_is_read_by_its_reader() -> None:
    shown = {"type": "impression", "impression_id": "q", "timestamp": 1795176000000, "items": []}
    lane, _ = applied("events", shown)
    assert lane.counts["impression_outcomes"]["accepted"] == 1
