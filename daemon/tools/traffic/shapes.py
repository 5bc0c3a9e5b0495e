"""Simulated events as search engines and their analytics record them, and the keys that read them.

Each shape carries the id of the search, and experiments, where a shop would put its own values; the
keys beside the preset name these places. Algolia has two kinds of records, of which each event is
one: the logged responses are the impressions, the bodies of the Insights API the feedback.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from ...events import timestamp_text
from .traffic import EXPERIMENT

Native: TypeAlias = Mapping[str, Any]
"""An event of the native format."""

PAGE_SIZE: Final = 20


def is_shown(event: Native) -> bool:
    """Whether an event is an impression."""
    return bool(event["type"] == "impression")


def algolia_response(event: Native) -> Native | None:
    """The response that a backend logs; None for feedback."""
    if not is_shown(event):
        return None
    return {
        "queryID": event["impression_id"],
        "time": event["timestamp"],
        "index": "products",
        "query": event["query"],
        "hits": [{"objectID": item, "_highlightResult": {}} for item in event["items"]],
        "page": 0,
        "hitsPerPage": PAGE_SIZE,
        "userToken": event.get("user_id"),
        "facets": event["attributes"],
        "abTestVariantID": event["experiments"].get(EXPERIMENT),
    }


def algolia_insights(event: Native) -> Native | None:
    """The body of a call of the Insights API; None for an impression."""
    if is_shown(event):
        return None
    kind = "addToCart" if event["kind"] == "add_to_cart" else event["kind"]
    is_click = kind == "click"
    reaction = {
        "eventType": "click" if is_click else "conversion",
        "eventName": "Product Clicked" if is_click else "Product Bought",
        "userToken": event.get("user_id") or "anonymous",
        "timestamp": event["timestamp"],
        "objectIDs": [event["item"]],
        "positions": [event["rank"]],
        "queryID": event["impression_id"],
        **({} if is_click else {"eventSubtype": kind}),
    }
    return {"events": [reaction]}


def elastic(event: Native) -> Native:
    """An event of Elastic Behavioral Analytics. It has no other reaction than the click: the
    others are events of the shop's own. The labels, too, are the shop's own."""
    attributes = event.get("attributes", {})
    common = {
        "@timestamp": timestamp_text(event["timestamp"]),
        "session": {"id": event.get("user_id")},
        "user": {"id": event.get("user_id")},
        "labels": {"search_id": event["impression_id"], **attributes},
    }
    if not is_shown(event):
        kind = event["kind"]
        return {
            **common,
            "event": {"action": "search_click" if kind == "click" else kind},
            "document": {"id": event["item"], "index": "products"},
        }
    items = [{"document": {"id": item, "index": "products"}} for item in event["items"]]
    page = {"current": 1, "size": PAGE_SIZE}
    return {
        **common,
        "event": {"action": "search"},
        "search": {"query": event["query"], "page": page, "results": {"items": items}},
        "experiments": event["experiments"],
    }


def ubi(event: Native) -> Native:
    """A query or an event of OpenSearch User Behavior Insights."""
    common = {
        "query_id": event["impression_id"],
        "timestamp": timestamp_text(event["timestamp"]),
        "client_id": event.get("user_id"),
    }
    if not is_shown(event):
        where = {
            "object": {"object_id": event["item"], "object_id_field": "id"},
            "position": {"ordinal": event["rank"]},
        }
        return {**common, "action_name": event["kind"], "event_attributes": where}
    return {
        **common,
        "user_query": event["query"],
        "query_response_hit_ids": event["items"],
        "query_attributes": {**event["attributes"], "experiments": event["experiments"]},
    }


NATIVE: Final = "native"
_ACTION: Final = (
    "unstruct_event_com_snowplowanalytics_snowplow_ecommerce_snowplow_ecommerce_action_1"
)
_PRODUCTS: Final = "contexts_com_snowplowanalytics_snowplow_ecommerce_product_1"
_SEARCH: Final = "contexts_com_acme_search_1"
_YAUAA: Final = "contexts_nl_basjes_yauaa_context_1"


@dataclass(frozen=True)
class RecordShape:
    """One shape: what writes an event, and the keys of `[[sources]]` beside topic and preset."""

    record: Callable[[Native], Native | None]
    """Event → record; None for an event that stands in another topic."""
    keys: str
    is_part: bool = False
    """Whether it writes impressions alone, or feedback alone."""

    def source(self, topic: str, preset: str) -> str:
        """The source that reads it, as TOML."""
        return f'[[sources]]\ntopic = "{topic}"\npreset = "{preset}"\n{self.keys}'


def _products(event: Native, item: str, position: str, base: int = 1) -> list[dict[str, Any]]:
    """The items with their positions: of the list, or the one of the feedback."""
    if is_shown(event):
        return [{item: one, position: n} for n, one in enumerate(event["items"], base)]
    return [{item: event["item"], position: event["rank"] - 1 + base}]


def _segment(event: Native) -> Native:
    names = {"click": "Product Clicked", "add_to_cart": "Product Added"}
    name = "Product List Viewed" if is_shown(event) else names.get(event["kind"], "Order Completed")
    products = _products(event, "product_id", "position")
    is_several = name in ("Product List Viewed", "Order Completed")
    attributes = event.get("attributes", {})
    at = timestamp_text(event["timestamp"])
    return {
        "type": "track",
        "event": name,
        "messageId": f"{event['impression_id']}-{event['timestamp']}",
        "anonymousId": event.get("user_id"),
        "userId": event.get("user_id"),
        "context": {
            "device": {"type": attributes.get("device")},
            "location": {"country": attributes.get("country")},
        },
        "timestamp": at,
        "properties": {
            "search_id": event["impression_id"],
            "experiments": event.get("experiments"),
            **({"products": products} if is_several else products[0]),
        },
    }


def _snowplow(event: Native) -> Native:
    kinds = {"click": "list_click", "purchase": "transaction"}
    kind = "list_view" if is_shown(event) else kinds.get(event["kind"], event["kind"])
    attributes = event.get("attributes", {})
    products = _products(event, "id", "position")
    search = {"search_id": event["impression_id"], "experiments": event.get("experiments")}
    return {
        "app_id": "shop",
        "event_id": f"{event['impression_id']}-{event['timestamp']}",
        "derived_tstamp": timestamp_text(event["timestamp"]),
        "user_id": event.get("user_id"),
        "domain_userid": event.get("user_id"),
        "geo_country": attributes.get("country"),
        _YAUAA: [{"deviceClass": attributes.get("device")}],
        _SEARCH: [search],
        _ACTION: {"type": kind},
        **({_PRODUCTS: products} if products else {}),
    }


def _ga4(event: Native) -> Native:
    kinds = {"click": "select_item"}
    attributes, experiments = event.get("attributes", {}), event.get("experiments", {})
    texts = {"search_id": event["impression_id"], **experiments}
    return {
        "event_timestamp": str(event["timestamp"] * 1000),
        "event_name": (
            "view_item_list" if is_shown(event) else kinds.get(event["kind"], event["kind"])
        ),
        "event_params": [
            {"key": name, "value": {"string_value": text}} for name, text in texts.items()
        ],
        "user_pseudo_id": event.get("user_id"),
        "user_id": event.get("user_id"),
        "geo": {"country": attributes.get("country")},
        "device": {"category": attributes.get("device")},
        "platform": "WEB",
        "items": _products(event, "item_id", "item_list_index", base=0),
    }


def _metarank(event: Native) -> Native:
    common = {
        "timestamp": str(event["timestamp"]),
        "user": event.get("user_id"),
        "session": event.get("user_id"),
    }
    if not is_shown(event):
        return {
            **common,
            "event": "interaction",
            "id": f"{event['impression_id']}-{event['timestamp']}",
            "ranking": event["impression_id"],
            "item": event["item"],
            "type": event["kind"],
            "fields": [],
        }
    named = {**event["attributes"], **event["experiments"]}
    return {
        **common,
        "event": "ranking",
        "id": event["impression_id"],
        "fields": [{"name": name, "value": value} for name, value in named.items()],
        "items": [{"id": item} for item in event["items"]],
    }


def _ids(expression: str, more: str) -> str:
    name = f'id = "{expression}"\n'
    return f"[sources.impression]\n{name}{more}[sources.feedback]\n{name}"


def _parameter(name: str) -> str:
    return f"event_params[?key=='{name}'].value.string_value | [0]"


def _field(name: str) -> str:
    return f"fields[?name=='{name}'].value | [0]"


_ALGOLIA_LOG: Final = f"""\
[sources.impression]
attributes = {{ "*" = "facets" }}
experiments = {{ {EXPERIMENT} = "abTestVariantID" }}
"""
_ELASTIC: Final = """\
[sources.impression]
id = "labels.search_id"
attributes = { country = "labels.country", device = "labels.device" }
experiments = { map = "experiments" }
[sources.feedback]
id = "labels.search_id"
kinds = { search_click = "click", add_to_cart = "add_to_cart", purchase = "purchase" }
"""
_SEGMENT: Final = RecordShape(
    _segment,
    _ids("properties.search_id", 'experiments = { map = "properties.experiments" }\n'),
)
SHAPES: Final[Mapping[str, RecordShape]] = {
    "segment": _SEGMENT,
    "rudderstack": _SEGMENT,
    "snowplow": RecordShape(
        _snowplow,
        _ids(f"{_SEARCH}[0].search_id", f'experiments = {{ map = "{_SEARCH}[0].experiments" }}\n'),
    ),
    "ga4": RecordShape(
        _ga4,
        _ids(
            _parameter("search_id"),
            f'experiments = {{ {EXPERIMENT} = "{_parameter(EXPERIMENT)}" }}\n',
        ),
    ),
    "metarank": RecordShape(
        _metarank,
        "[sources.impression]\n"
        f'attributes = {{ country = "{_field("country")}", device = "{_field("device")}" }}\n'
        f'experiments = {{ {EXPERIMENT} = "{_field(EXPERIMENT)}" }}\n',
    ),
    "algolia-search-log": RecordShape(algolia_response, _ALGOLIA_LOG, is_part=True),
    "algolia-insights": RecordShape(algolia_insights, "", is_part=True),
    "elastic": RecordShape(elastic, _ELASTIC),
    "ubi": RecordShape(ubi, ""),
}
"""Preset → the shape of its records."""
