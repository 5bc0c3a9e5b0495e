"""Records as the tools behind the presets write them, and the events that they are."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from relevanced.daemon.events import Decoded, Feedback, Impression, Skipped

NOON_MS: Final = 1795176000000
SEARCH_ID: Final = """
[sources.impression]
id = "properties.search_id"
[sources.feedback]
id = "properties.search_id"
"""
ECOMMERCE: Final = (
    "unstruct_event_com_snowplowanalytics_snowplow_ecommerce_snowplow_ecommerce_action_1"
)
PRODUCTS: Final = "contexts_com_snowplowanalytics_snowplow_ecommerce_product_1"
ACME: Final = "contexts_com_acme_search_1"


@dataclass(frozen=True)
class Example:
    """Records of one format."""

    config: str
    """The keys beside topic and preset."""
    records: Sequence[Mapping[str, Any]]
    events: Sequence[Decoded]
    """What they come to, without details."""


def _call(event: str, second: int, properties: Mapping[str, Any]) -> dict[str, Any]:
    at = f"2026-11-20T12:00:{second:02}.120Z"
    return {
        "type": "track",
        "event": event,
        "messageId": f"ajs-next-{second}-9f31",
        "anonymousId": "507f191e810c",
        "userId": None,
        "context": {
            "device": {"type": "ios", "id": "B5372DB0"},
            "location": {"city": "Köln", "country": "DE"},
            "locale": "de-DE",
            "ip": "203.0.113.9",
            "userAgent": "Mozilla/5.0 (iPhone; CPU iPhone OS 19_1 like Mac OS X)",
            "library": {"name": "analytics.js", "version": "4.1.2"},
        },
        "integrations": {"All": True},
        "originalTimestamp": "2026-11-20T11:59:02.000Z",
        "sentAt": "2026-11-20T11:59:03.000Z",
        "receivedAt": at,
        "timestamp": at,
        "properties": {"search_id": "s-1", **properties},
    }


_SEGMENT: Final = [
    _call(
        "Product List Viewed",
        1,
        {
            "list_id": "search",
            "products": [
                {"product_id": "p2", "sku": "S2", "position": 2, "price": 9.5, "name": "Shoe"},
                {"product_id": "p1", "sku": "S1", "position": 1, "price": 19.0},
                {"sku": "S3", "name": "without a position"},
            ],
        },
    ),
    _call("Product Clicked", 5, {"product_id": "p1", "position": 1, "price": 19.0}),
    _call("Product Clicked", 6, {"search_id": None, "product_id": "p9"}),
    _call("Page Viewed", 7, {}),
    _call(
        "Order Completed",
        9,
        {"order_id": "o1", "products": [{"product_id": "p1"}, {"sku": "S3", "position": 3}]},
    ),
]
_SEGMENT_EVENTS: Final = [
    Impression(
        "s-1",
        NOON_MS + 1120,
        ("p1", "p2", "S3"),
        attributes={"device": "ios", "country": "DE", "locale": "de-DE"},
        user_id="507f191e810c",
    ),
    Feedback("s-1", NOON_MS + 5120, "click", "p1", 1),
    Skipped("no_query_id"),
    Skipped("not_mapped"),
    Feedback("s-1", NOON_MS + 9120, "purchase", "p1"),
    Feedback("s-1", NOON_MS + 9120, "purchase", "S3", 3),
]


def _enriched(kind: str, second: int, **more: Any) -> dict[str, Any]:
    return {
        "app_id": "shop-web",
        "platform": "web",
        "collector_tstamp": f"2026-11-20T12:00:{second:02}.900Z",
        "dvce_created_tstamp": f"2026-11-20T11:58:{second:02}.000Z",
        "derived_tstamp": f"2026-11-20T12:00:{second:02}.450Z",
        "event": "unstruct",
        "event_id": f"c6ef3124-b53a-4b13-a233-{second:012}",
        "event_fingerprint": "e3dbfa9cca0412c3d4052863cefb547f",
        "domain_userid": "bc2e92ec6c204a14",
        "network_userid": "ecdff4d0-9175-40ac-a8bb-325c49733607",
        "domain_sessionidx": 2,
        "geo_country": "AT",
        "useragent": "Mozilla/5.0 (X11; Linux x86_64)",
        "contexts_nl_basjes_yauaa_context_1": [{"deviceClass": "Desktop", "agentName": "Firefox"}],
        ACME: [{"search_id": "s-7"}],
        ECOMMERCE: {"type": kind, "name": "Search results"},
        **more,
    }


_SNOWPLOW: Final = [
    _enriched(
        "list_view",
        1,
        **{
            PRODUCTS: [
                {"id": "b", "category": "x", "price": 3, "currency": "EUR", "position": 2},
                {"id": "a", "category": "x", "price": 4, "currency": "EUR", "position": 1},
            ]
        },
    ),
    _enriched("list_view", 2, **{ACME: [{"search_id": "s-8"}]}),
    _enriched("list_click", 4, **{PRODUCTS: [{"id": "a", "position": 1}]}),
    _enriched("product_view", 5, **{PRODUCTS: [{"id": "a"}]}),
    _enriched("transaction", 6, **{PRODUCTS: [{"id": "a"}, {"id": "b", "position": None}]}),
]
_SNOWPLOW_CONTEXT: Final = {"app": "shop-web", "country": "AT", "device": "Desktop"}
_SNOWPLOW_EVENTS: Final = [
    Impression(
        "s-7",
        NOON_MS + 1450,
        ("a", "b"),
        attributes=_SNOWPLOW_CONTEXT,
        user_id="bc2e92ec6c204a14",
    ),
    Impression("s-8", NOON_MS + 2450, (), attributes=_SNOWPLOW_CONTEXT, user_id="bc2e92ec6c204a14"),
    Feedback("s-7", NOON_MS + 4450, "click", "a", 1),
    Skipped("not_mapped"),
    Feedback("s-7", NOON_MS + 6450, "purchase", "a"),
    Feedback("s-7", NOON_MS + 6450, "purchase", "b"),
]


def _row(name: str, second: int, items: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    return {
        "event_date": "20261120",
        "event_timestamp": str((NOON_MS + 1000 * second) * 1000 + 417),
        "event_name": name,
        "event_params": [
            {"key": "page_title", "value": {"string_value": "Search"}},
            {"key": "ga_session_id", "value": {"int_value": "1795175000"}},
            {"key": "search_term", "value": {"string_value": "shoe"}},
            {"key": "search_id", "value": {"string_value": "s-3"}},
        ],
        "user_pseudo_id": "1026454.4271112504",
        "user_id": None,
        "device": {"category": "mobile", "language": "en-us"},
        "geo": {"country": "United States", "region": "Iowa"},
        "platform": "WEB",
        "items": items,
    }


_GA4: Final = [
    _row(
        "view_item_list",
        1,
        [
            {"item_id": "GGOE1", "item_name": "Tee", "item_list_index": "1"},
            {"item_id": "GGOE0", "item_name": "Cap", "item_list_index": "0"},
            {"item_id": "GGOE9", "item_name": "Mug", "item_list_index": "(not set)"},
        ],
    ),
    _row("select_item", 8, [{"item_id": "GGOE0", "item_list_index": "0"}]),
    _row("scroll", 9, []),
    _row("purchase", 10, [{"item_id": "GGOE0", "item_list_index": "(not set)"}]),
]
_GA4_ID: Final = """
[sources.impression]
id = "event_params[?key=='search_id'].value.string_value | [0]"
[sources.feedback]
id = "event_params[?key=='search_id'].value.string_value | [0]"
"""
_GA4_EVENTS: Final = [
    Impression(
        "s-3",
        NOON_MS + 1000,
        ("GGOE0", "GGOE1", "GGOE9"),
        attributes={"country": "United States", "device": "mobile", "platform": "WEB"},
        user_id="1026454.4271112504",
    ),
    Feedback("s-3", NOON_MS + 8000, "click", "GGOE0", 1),
    Skipped("not_mapped"),
    Feedback("s-3", NOON_MS + 10000, "purchase", "GGOE0"),
]

_ALGOLIA_RESPONSE: Final = {
    "hits": [{"objectID": "o1", "_highlightResult": {}}, {"objectID": "o2"}],
    "nbHits": 45,
    "page": 1,
    "nbPages": 3,
    "hitsPerPage": 20,
    "query": "shoe",
    "index": "products",
    "queryID": "43b15df305339e827f0ac0bdc5ebcaa7",
    "abTestID": 12,
    "abTestVariantID": 2,
    "processingTimeMS": 1,
    "time": NOON_MS,
    "userToken": "user-1",
}
_ALGOLIA_ID: Final = "43b15df305339e827f0ac0bdc5ebcaa7"
_INSIGHTS: Final = {
    "events": [
        {
            "eventType": "click",
            "eventName": "Product Clicked",
            "index": "products",
            "userToken": "user-1",
            "timestamp": NOON_MS + 4000,
            "objectIDs": ["o1"],
            "positions": [21],
            "queryID": _ALGOLIA_ID,
        },
        {"eventType": "view", "index": "products", "userToken": "u", "objectIDs": ["o2"]},
        {
            "eventType": "conversion",
            "eventSubtype": "purchase",
            "eventName": "Bought",
            "userToken": "user-1",
            "timestamp": NOON_MS + 9000,
            "objectIDs": ["o1", "o2"],
            "objectData": [{"queryID": _ALGOLIA_ID, "price": "9.50"}, {"price": "3"}],
            "currency": "USD",
        },
    ]
}

_METARANK: Final = [
    {
        "event": "ranking",
        "id": "81f46c34-a4bb-469c-8708-f8127cd67d27",
        "timestamp": str(NOON_MS),
        "user": "user1",
        "session": "session1",
        "fields": [{"name": "query", "value": "cat"}, {"name": "country", "value": "NL"}],
        "items": [{"id": "item3", "label": 2}, {"id": "item1"}],
    },
    {
        "event": "interaction",
        "id": "0f4c0036-04fb-4409-b2c6-7163a59f6b7d",
        "item": "item3",
        "timestamp": "2026-11-20T12:00:03Z",
        "ranking": "81f46c34-a4bb-469c-8708-f8127cd67d27",
        "user": "user1",
        "session": "session1",
        "type": "purchase",
        "fields": [],
    },
    {"event": "item", "id": "x", "item": "item3", "timestamp": NOON_MS, "fields": []},
    {"event": "interaction", "id": "y", "item": "item1", "timestamp": NOON_MS, "type": "click"},
]

_SESSION: Final = {"session": {"id": "c8a0"}, "user": {"id": "u-5"}, "event": {"source": "site"}}
_ELASTIC: Final = [
    {
        **_SESSION,
        "@timestamp": "2026-11-20T12:00:00.000Z",
        "event": {"action": "search"},
        "search": {
            "query": "shoe",
            "search_application": "shop",
            "page": {"current": 2, "size": 10},
            "results": {"items": [{"document": {"id": "d1", "index": "products"}}]},
        },
    },
    {
        **_SESSION,
        "@timestamp": "2026-11-20T12:00:07.000Z",
        "event": {"action": "search_click"},
        "document": {"id": "d1", "index": "products"},
        "search_id": "s-4",
    },
    {**_SESSION, "@timestamp": "2026-11-20T12:00:09.000Z", "event": {"action": "page_view"}},
]

EXAMPLES: Final[Mapping[str, Example]] = {
    "segment": Example(SEARCH_ID, [{"batch": _SEGMENT[:3]}, *_SEGMENT[3:]], _SEGMENT_EVENTS),
    "rudderstack": Example(SEARCH_ID, _SEGMENT, _SEGMENT_EVENTS),
    "snowplow": Example(
        SEARCH_ID.replace("properties.", f"{ACME}[0]."), _SNOWPLOW, _SNOWPLOW_EVENTS
    ),
    "ga4": Example(_GA4_ID, _GA4, _GA4_EVENTS),
    "algolia-search-log": Example(
        "",
        [{"results": [_ALGOLIA_RESPONSE, {"hits": []}]}],
        [
            Impression(
                _ALGOLIA_ID,
                NOON_MS,
                ("o1", "o2"),
                first_rank=21,
                attributes={"index": "products"},
                experiments={"algolia-ab": "2"},
                user_id="user-1",
            ),
            Skipped("not_mapped"),
        ],
    ),
    "algolia-insights": Example(
        "",
        [_INSIGHTS],
        [
            Feedback(_ALGOLIA_ID, NOON_MS + 4000, "click", "o1", 21),
            Skipped("not_mapped"),
            Feedback(_ALGOLIA_ID, NOON_MS + 9000, "purchase", "o1"),
            Skipped("no_query_id"),
        ],
    ),
    "metarank": Example(
        "[sources.impression]\nattributes = { country = \"fields[?name=='country'].value | [0]\" }",
        _METARANK,
        [
            Impression(
                "81f46c34-a4bb-469c-8708-f8127cd67d27",
                NOON_MS,
                ("item3", "item1"),
                attributes={"country": "NL"},
                grades={"item3": 2.0},
                user_id="user1",
            ),
            Feedback("81f46c34-a4bb-469c-8708-f8127cd67d27", NOON_MS + 3000, "purchase", "item3"),
            Skipped("not_mapped"),
            Skipped("no_query_id"),
        ],
    ),
    "elastic": Example(
        '[sources.feedback]\nid = "search_id"',
        _ELASTIC,
        [
            Impression(
                "c8a0|2026-11-20T12:00:00.000Z",
                NOON_MS,
                ("d1",),
                first_rank=11,
                attributes={"application": "shop"},
                user_id="u-5",
            ),
            Feedback("s-4", NOON_MS + 7000, "click", "d1"),
            Skipped("not_mapped"),
        ],
    ),
}
