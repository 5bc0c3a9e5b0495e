"""Records of no preset: tables are guessed, and proposed only where feedback joins by them."""

from typing import Any

import msgspec
import pytest

from relevanced.daemon.config import decoder_of, load
from relevanced.daemon.recompute.files import RecordedRecord
from relevanced.daemon.tools.diagnosis import GuessedRecords, guess_tables
from relevanced.daemon.tools.doctor import diagnosed
from tests.daemon.tools.doctor.test_diagnosis import native_events

KINDS = {"click": "result_clicked", "add_to_cart": "basket_filled", "purchase": "order_placed"}


def own(arrives_ms: int, event: dict[str, Any]) -> dict[str, Any]:
    """The format of a shop of its own."""
    if event["type"] == "impression":
        return {
            "event": "results_shown",
            "sent_at": arrives_ms - 40,
            "search": {
                "id": event["impression_id"],
                "results": [{"sku": item, "price": 3} for item in event["items"]],
            },
            "geo": {"country": event["attributes"]["country"]},
            "device": event["attributes"]["device"],
            "user_agent": f"browser {arrives_ms % 977}",
            "visitor": {"id": 1, "cookie": event["user_id"]},
        }
    return {
        "event": KINDS[event["kind"]],
        "sent_at": arrives_ms - 40,
        "search_id": event["impression_id"],
        "sku": event["item"],
        "index": event["rank"] - 1,
        "amount": arrives_ms % 3,
    }


def test_lists_feedback_items_ids_times_and_attributes_are_found() -> None:
    events = native_events()
    shop = GuessedRecords([own(at, event) for at, event in events], [at for at, _ in events])
    found = guess_tables({"shop": shop})["shop"]
    lists, feedback = found.lists, found.feedback
    assert lists is not None and feedback is not None
    assert (lists.where, feedback.path) == (("event", "results_shown"), "event")
    assert (lists.id, feedback.id) == ("search.id", "search_id")
    assert (lists.items.array, lists.items.member) == ("search.results", "sku")
    assert (lists.items.of_feedback, feedback.item) == ("sku", "sku")
    assert {lists.time.path, feedback.time.path} == {"sent_at"}
    assert lists.attributes == {"country": "geo.country", "device": "device"}
    assert lists.user == "visitor.cookie"
    assert feedback.rank is not None and (feedback.rank.path, feedback.rank.base) == ("index", 0)
    assert feedback.kinds.items() <= {v: k for k, v in KINDS.items()}.items() and feedback.kinds


def test_the_id_of_an_item_is_no_user_whatever_its_name() -> None:
    shaped = [own(at, event) for at, event in native_events()]
    for value in shaped:
        value.pop("visitor", None)
        for item in value.get("search", {}).get("results", ()):
            item["uid"] = item.pop("sku")
    found = guess_tables({"shop": GuessedRecords(shaped, [at for at, _ in native_events()])})
    lists = found["shop"].lists
    assert lists is not None and lists.items.member == "uid" and lists.user is None


@pytest.mark.parametrize("lacking", ["search_id", "sku", "sent_at", "event"])
def test_nothing_is_guessed_where_a_part_is_lacking(lacking: str) -> None:
    events = native_events()
    shaped = [own(at, event) for at, event in events]
    for value in shaped:
        value.pop(lacking, None)
    assert guess_tables({"shop": GuessedRecords(shaped, [at for at, _ in events])}) == {}


def records_of(unit: float) -> list[RecordedRecord]:
    found = []
    for offset, (at, event) in enumerate(native_events()):
        value = own(at, event)
        value["sent_at"] = int(value["sent_at"] * unit)
        body = msgspec.json.encode(value)
        found.append(RecordedRecord("shop", 0, offset, at, None, body, ()))
    return found


@pytest.mark.parametrize("unit", [1e-3, 1, 1e3, 1e6])
def test_a_format_of_ones_own_is_proposed_and_joins(unit: float) -> None:
    """With times in s, ms, µs and ns."""
    sample = records_of(unit)
    found, text = diagnosed({"shop": sample}, ["kafka:9092"])
    assert text is not None and "guessed: check" in text, found
    lines = {finding.name: finding for finding in found}
    assert lines["records of shop"].words.endswith("map with the guessed tables")
    assert lines["join rate"].words.startswith("100.0 %")
    decode = decoder_of(load(text, {}, "proposed"))
    events = [event for record in sample for event in decode.of_record(record)]
    expected = {(str(e["type"]), e["impression_id"]) for _, e in native_events()}
    assert {(type(e).__name__.lower(), e.impression_id) for e in events} == expected


@pytest.mark.parametrize("told_apart", [True, False])
def test_lists_and_feedback_may_stand_in_two_topics(told_apart: bool) -> None:
    """Whether or not the records name the kind of event that they are."""
    samples: dict[str, list[RecordedRecord]] = {"results": [], "clicks": []}
    for offset, (at, event) in enumerate(native_events()):
        if event["type"] == "feedback" and event["kind"] != "click" and not told_apart:
            continue
        value = own(at, event)
        topic = "results" if value["event"] == "results_shown" else "clicks"
        if not told_apart:
            del value["event"]
        body = msgspec.json.encode(value)
        samples[topic].append(RecordedRecord(topic, 0, offset, at, None, body, ()))
    found, text = diagnosed(samples, ["kafka:9092"])
    assert text is not None and text.count("[[sources]]") == 2, found
    lines = {finding.name: finding for finding in found}
    assert lines["join rate"].words.startswith("100.0 %")
    assert ("kind = \"'click'\"" in text) is not told_apart
