"""The cost of reading mapped records, in this process: formats take turns, ratios are from one run.

The same searches and clicks as native records, as an own format with a list of ids, and as Segment,
Snowplow and GA4 write them, with as many members that no expression reads as theirs have. Own
records are compared with native ones; the others, which are many times as large, with a typed
decode of the same bytes that is written out by hand here. Searches in Avro and Protobuf, of twenty
products and some 2 kB, are read to plain events by a mapping of their list, and compared with what
the libraries take to parse the same bodies.
"""

import io
import json
import random
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any, Final

import fastavro
import msgspec
from msgspec import Struct, field

from relevanced.daemon.attribution import LoggedRecords, runs, slice_of
from relevanced.daemon.config import applied_sources, load
from relevanced.daemon.events import Decoder, Limits, decoder
from relevanced.daemon.lane import AttributeTexts
from relevanced.daemon.mapping import Mapper, mapper
from relevanced.daemon.tools.traffic import SHAPES
from tests.bench.effort import Effort
from tests.bench.findings import Finding, PartResult, number, ratio
from tests.bench.stage import Stage
from tests.builders import START_MS, plan_with
from tests.daemon.codecs import avro_bodies, protobuf_messages
from tests.daemon.mapping import codec_records

RECORDS: Final = 20_000
ROUNDS: Final = 9
ITEMS: Final = 20
SHOWN_SHARE: Final = 0.6
GOAL_OWN: Final = 1.3
GOALS_TYPED: Final = {"segment": 2.0, "snowplow": 2.0, "ga4": 1.5}
PARSERS: Final = {"avro": "fastavro's", "protobuf": "upb's"}
GOALS_US: Final = {"avro": 14.0, "protobuf": 7.0}
LIMITS: Final = Limits(attributes=("country", "device"))
PLAN: Final = plan_with(groupings=(("country",), ("device",)), depth=100)
OWN: Final = """[[sources]]
topic = "t"
[sources.impression]
where = "kind == 'search'"
id = "search_id"
time = "at"
items = "results"
visitor = "user"
attributes = { country = "country", device = "device" }
[sources.feedback]
where = "kind != 'search'"
id = "search_id"
time = "at"
kind = "kind"
item = "item"
rank = "rank"
"""
LISTS: Final = {
    "avro": """[sources.impression]
where = "event == 'Product List Viewed'"
id = "properties.search_id"
time = "timestamp"
items = "properties.products"
item = "product_id"
visitor = "anonymousId"
attributes = { country = "context.location.country" }
""",
    "protobuf": """[sources.impression]
where = "kind == 'SHOWN'"
id = "id"
time = "at_ms"
items = "products"
item = "product_id"
visitor = "visitor"
attributes = { country = "country" }
""",
}


class Product(Struct, gc=False):
    product_id: str | None = None
    sku: str | None = None
    position: int | None = None


class Properties(Struct, gc=False):
    search_id: str | None = None
    experiments: dict[str, str] | None = None
    products: list[Product] | None = None
    product_id: str | None = None
    sku: str | None = None
    position: int | None = None


class Device(Struct, gc=False):
    type: str | None = None
    category: str | None = None


class Place(Struct, gc=False):
    country: str | None = None


class Context(Struct, gc=False):
    device: Device | None = None
    location: Place | None = None
    locale: str | None = None


class Segment(Struct, gc=False):
    event: str
    timestamp: str
    properties: Properties
    context: Context
    anonymousId: str | None = None
    userId: str | None = None


class Thing(Struct, gc=False):
    id: str
    position: int | None = None


class Search(Struct, gc=False):
    search_id: str
    experiments: dict[str, str] | None = None


class Agent(Struct, gc=False):
    deviceClass: str | None = None


class Action(Struct, gc=False):
    type: str


class Snowplow(Struct, gc=False):
    derived_tstamp: str
    action: Action = field(
        name="unstruct_event_com_snowplowanalytics_snowplow_ecommerce_snowplow_ecommerce_action_1"
    )
    products: list[Thing] = field(
        name="contexts_com_snowplowanalytics_snowplow_ecommerce_product_1", default_factory=list
    )
    search: list[Search] = field(name="contexts_com_acme_search_1", default_factory=list)
    agents: list[Agent] = field(name="contexts_nl_basjes_yauaa_context_1", default_factory=list)
    domain_userid: str | None = None
    network_userid: str | None = None
    user_id: str | None = None
    app_id: str | None = None
    geo_country: str | None = None


class Value(Struct, gc=False):
    string_value: str | None = None
    int_value: int | None = None


class Parameter(Struct, gc=False):
    key: str
    value: Value


class Item(Struct, gc=False):
    item_id: str
    item_list_index: int | None = None


class Ga4(Struct, gc=False):
    event_name: str
    event_timestamp: str
    event_params: list[Parameter]
    items: list[Item]
    user_pseudo_id: str | None = None
    user_id: str | None = None
    geo: Place | None = None
    device: Device | None = None
    platform: str | None = None


TYPED: Final = {"segment": Segment, "snowplow": Snowplow, "ga4": Ga4}
BYTES: Final = {"segment": 4_250, "snowplow": 4_800, "ga4": 11_200}
"""Of a record on average, as those of real trackers: what is missing is filled with members that no
expression reads."""


@dataclass(frozen=True)
class Format:
    """Records of one format, and how they are read."""

    records: LoggedRecords
    decoder: Decoder
    typed: Callable[[bytes], Any] | None = None
    parse: Callable[[bytes], Any] | None = None
    """The library's own parser of a body."""
    frame_bytes: int = 0
    """Before each body."""

    def read_us(self) -> float:
        """CPU time of `runs.read_runs` for each record."""
        texts, began_s = AttributeTexts(PLAN), time.process_time()
        for _ in runs.read_runs(self.records, self.decoder, texts):
            pass
        return (time.process_time() - began_s) / len(self.records) * 1e6

    def plain_us(self) -> float:
        """CPU time to plain events for each record, in slices as the reader takes them."""
        logged = self.records.logged()
        began_s = time.process_time()
        size = slice_of(self.records)
        for first in range(0, len(logged), size):
            found = self.decoder.plain(LoggedRecords(logged[first : first + size]), 1 << 20)
            assert not found.left
        return (time.process_time() - began_s) / len(logged) * 1e6

    def typed_us(self) -> float:
        """CPU time of the typed decode for each record, in slices as the reader takes them."""
        values = self.records.values()
        assert self.typed is not None
        began_s = time.process_time()
        size = slice_of(self.records)
        for first in range(0, len(values), size):
            list(map(self.typed, values[first : first + size]))
        return (time.process_time() - began_s) / len(values) * 1e6

    def parse_us(self) -> float:
        """CPU time of the library's parser for each record, of whose results none is kept."""
        bodies = [value[self.frame_bytes :] for value in self.records.values()]
        assert self.parse is not None
        began_s = time.process_time()
        deque(map(self.parse, bodies), maxlen=0)
        return (time.process_time() - began_s) / len(bodies) * 1e6


def events(count: int) -> list[dict[str, Any]]:
    """Searches and clicks of the native format."""
    rng, shown, found = random.Random(1), dict[str, Any](), list[dict[str, Any]]()
    for n in range(count):
        common = {"timestamp": START_MS + 50 * n, "user_id": f"user-{n % 977}"}
        if not shown or rng.random() < SHOWN_SHARE:
            attributes = {"country": rng.choice("ABCDEFG"), "device": rng.choice(("ios", "web"))}
            shown = {"type": "impression", "impression_id": f"search-{n}", **common}
            shown |= {"items": [f"item-{rng.randrange(10**6)}" for _ in range(ITEMS)]}
            found.append(shown | {"attributes": attributes})
        else:
            rank = rng.randrange(ITEMS)
            click = {"type": "feedback", "impression_id": shown["impression_id"], **common}
            found.append(click | {"kind": "click", "item": shown["items"][rank], "rank": rank + 1})
    return found


def own(event: Mapping[str, Any]) -> dict[str, Any]:
    """A native event in the own format."""
    common = {"search_id": event["impression_id"], "at": event["timestamp"]}
    common |= {"user": event["user_id"], "app": "shop 3.1", "session": "b5f7e1"}
    if event["type"] == "impression":
        return {"kind": "search", **common, "results": event["items"], **event["attributes"]}
    return {"kind": event["kind"], **common, "item": event["item"], "rank": event["rank"]}


def filled(records: Sequence[Mapping[str, Any]], size: int) -> list[bytes]:
    """Records as JSON, with as many further members as make them so long on average."""
    values = [encoded(record) for record in records]
    short = max(0, size - sum(map(len, values)) // len(values))
    more = {f"member_{n}": {"name": f"value {n}", "n": n, "on": True} for n in range(short // 46)}
    return [encoded({**more, **record}) for record in records]


def encoded(record: Mapping[str, Any]) -> bytes:
    """A record as compact JSON."""
    return json.dumps(record, separators=(",", ":")).encode()


def formats(count: int) -> dict[str, Format]:
    """All formats, with the same events."""
    native = events(count)
    found = {
        "native": Format(_logged(map(encoded, native)), decoder("native", LIMITS)),
        "own": Format(_logged(map(encoded, map(own, native))), _mapper(OWN)),
    }
    for name, typed in TYPED.items():
        values = filled([SHAPES[name].record(event) for event in native], BYTES[name])
        mapper = _mapper(SHAPES[name].source("t", name))
        found[name] = Format(_logged(values), mapper, msgspec.json.Decoder(typed).decode)
    return found


def coded(count: int) -> dict[str, Format]:
    """Searches in Avro and Protobuf."""
    searches = [avro_bodies.track(ITEMS, messageId=f"search-{n}") for n in range(count)]
    for search in searches:
        search["properties"]["search_id"] = search["messageId"]
    messages = [protobuf_messages.track(ITEMS, id=f"search-{n}") for n in range(count)]
    records = {
        "avro": _logged(map(codec_records.avro, searches)),
        "protobuf": _logged(map(codec_records.protobuf, messages)),
    }
    schema = fastavro.parse_schema(avro_bodies.TRACK)
    parsers: dict[str, tuple[Callable[[bytes], Any], int]] = {
        "avro": (
            lambda body: fastavro.schemaless_reader(io.BytesIO(body), schema, None),
            len(codec_records.AVRO_HEAD),
        ),
        "protobuf": (
            protobuf_messages.message_class("acme.Track").FromString,
            len(codec_records.PROTOBUF_HEAD),
        ),
    }
    return {
        codec: Format(
            one,
            codec_records.mapper_of(f'codec = "{codec}"\n{LISTS[codec]}', LIMITS),
            parse=parsers[codec][0],
            frame_bytes=parsers[codec][1],
        )
        for codec, one in records.items()
    }


def _mapper(source: str) -> Mapper:
    return mapper(applied_sources(load(source, {}, "bench.toml").sources)[0], LIMITS)


def _logged(values: Any) -> LoggedRecords:
    records: list[Any] = [
        SimpleNamespace(topic="t", timestamp=START_MS + 50 * n, value=value, key=None, headers=())
        for n, value in enumerate(values)
    ]
    return LoggedRecords(records)


async def measure(stage: Stage, effort: Effort) -> PartResult:
    """The ratios of each format, and the time for a record."""
    # One after the other: what only the others need would be in memory.
    return PartResult([*_of_json(effort), *_of_codecs(effort)])


def _of_json(effort: Effort) -> list[Finding]:
    found = formats(effort.of(RECORDS))
    read_us: dict[str, list[float]] = {name: [] for name in found}
    typed_us: dict[str, list[float]] = {name: [] for name in TYPED}
    for _ in range(effort.rounds(ROUNDS)):
        for name, one in found.items():
            read_us[name].append(one.read_us())
            if name in typed_us:
                typed_us[name].append(one.typed_us())
    pairs = list(zip(read_us["own"], read_us["native"], strict=True))
    findings: list[Finding] = [
        ratio("mapping.own", "reading own JSON, lists of ids ÷ native", pairs, GOAL_OWN)
    ]
    for name, typed in typed_us.items():
        pairs = list(zip(read_us[name], typed, strict=True))
        findings.append(
            ratio(f"mapping.{name}", f"reading {name} ÷ a typed decode", pairs, GOALS_TYPED[name])
        )
    for name, times in read_us.items():
        findings.append(
            number(f"mapping.{name}_us", f"reading {name}, CPU per record", times, "µs")
        )
    return findings


def _of_codecs(effort: Effort) -> list[Finding]:
    findings: list[Finding] = []
    for name, one in coded(effort.of(RECORDS // 4)).items():
        pairs = [(one.plain_us(), one.parse_us()) for _ in range(effort.rounds(ROUNDS))]
        read_us, parse_us = map(list, zip(*pairs, strict=True))
        words, parse = f"reading a search of {ITEMS} products in {name.title()}", PARSERS[name]
        findings += [
            number(f"mapping.{name}_us", f"{words}, CPU", read_us, "µs", GOALS_US[name]),
            number(f"mapping.{name}_parse_us", f"{parse} parse of it, CPU", parse_us, "µs"),
            ratio(f"mapping.{name}", f"{words} ÷ {parse} parse of it", pairs),
        ]
    return findings
