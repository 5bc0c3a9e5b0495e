"""Simulated events as records of the formats that topics have, and what reads each of them."""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from relevanced.daemon.events import timestamp_text
from relevanced.daemon.tools.traffic import SHAPES

Event = Mapping[str, Any]
"""An event of the native format."""
Headers = tuple[tuple[str, bytes], ...]


@dataclass(frozen=True)
class Format:
    """How events are written."""

    record: Callable[[Event], Any]
    source: str
    """The keys of `[[sources]]` beside the topic."""
    native: Callable[[Event], Event] = lambda event: event
    """The event without what the format does not say."""
    headers: Callable[[Event], Headers] = lambda event: ()
    feedback: str | None = None
    """The keys of the source of feedback, where it stands in a topic of its own."""
    not_mapped: int = 0
    """How many elements of each record are no events."""


def _preset(name: str) -> str:
    return f'preset = "{name}"\n{SHAPES[name].keys}'


def _without_rank(event: Event) -> Event:
    return {name: value for name, value in event.items() if name != "rank"}


def _is_shown(event: Event) -> bool:
    return bool(event["type"] == "impression")


def _batched(event: Event) -> Event:
    """A batch of Segment calls, of which one is an event of the daemon."""
    page = {"type": "page", "event": "Page Viewed", "messageId": "p"}
    return {"batch": [page, _preset_record("segment")(event), page]}


def _preset_record(name: str) -> Callable[[Event], Event]:
    return lambda event: SHAPES[name].record(event) or {}


def _algolia(event: Event) -> Event:
    """A record of either of the two topics."""
    name = "algolia-search-log" if _is_shown(event) else "algolia-insights"
    return _preset_record(name)(event)


def _cloud_headers(event: Event) -> Headers:
    """Of binary mode; an attribute of the envelope says what the event is."""
    kind = b"com.acme.shown" if _is_shown(event) else b"com.acme.reaction"
    return (
        ("ce_specversion", b"1.0"),
        ("ce_type", kind),
        ("ce_source", b"/search"),
        ("ce_time", timestamp_text(event["timestamp"]).encode()),
        ("content-type", b"application/json"),
    )


def _cloud(event: Event) -> Event:
    return {name: value for name, value in event.items() if name not in ("type", "timestamp")}


def _own(event: Event) -> Event:
    """JSON in a string, a list as text, ranks from 0, times in microseconds."""
    if _is_shown(event):
        body = {
            "name": "shown",
            "search": {"id": event["impression_id"], "results": ",".join(event["items"])},
            "who": event.get("user_id"),
            "facets": event["attributes"],
            "ab": [{"test": name, "arm": arm} for name, arm in event["experiments"].items()],
        }
    else:
        body = {
            "name": f"{event['kind']}ed",
            "search": {"id": event["impression_id"]},
            "target": {"sku": event["item"], "index": event["rank"] - 1},
        }
    return {"v": 2, "payload": json.dumps({**body, "at": event["timestamp"] * 1000})}


_CLOUD = """envelope = "cloudevents"
[sources.impression]
where = "ce('type') == 'com.acme.shown'"
id = "impression_id"
time = "ce('time')"
items = "items"
user = "user_id"
attributes = { "*" = "attributes" }
experiments = { map = "experiments" }
[sources.feedback]
where = "ce('type') == 'com.acme.reaction'"
kind = "kind"
id = "impression_id"
time = "ce('time')"
item = "item"
rank = "rank"
"""
_OWN = """each = "parse_json(payload)"
time_format = "us"
[sources.impression]
where = "name == 'shown'"
id = "search.id"
time = "at"
items = "split(search.results, ',')"
user = "who"
attributes = { "*" = "facets" }
experiments = { list = "ab", name = "test", variant = "arm" }
[sources.feedback]
kind = "name"
kinds = { clicked = "click", add_to_carted = "add_to_cart", purchaseed = "purchase" }
id = "search.id"
time = "at"
item = "target.sku"
rank = "target.index"
rank_base = 0
"""

FORMATS: Mapping[str, Format] = {
    "segment": Format(_batched, _preset("segment"), not_mapped=2),
    "rudderstack": Format(_preset_record("rudderstack"), _preset("rudderstack")),
    "snowplow": Format(_preset_record("snowplow"), _preset("snowplow")),
    "ga4": Format(_preset_record("ga4"), _preset("ga4")),
    "metarank": Format(_preset_record("metarank"), _preset("metarank"), _without_rank),
    "algolia": Format(
        _algolia, _preset("algolia-search-log"), feedback=_preset("algolia-insights")
    ),
    "elastic": Format(_preset_record("elastic"), _preset("elastic"), _without_rank),
    "ubi": Format(_preset_record("ubi"), _preset("ubi")),
    "native": Format(dict, 'preset = "native"\n'),
    "cloudevents": Format(_cloud, _CLOUD, headers=_cloud_headers),
    "own": Format(_own, _OWN),
}
