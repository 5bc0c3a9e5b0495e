"""Simulated events as search engines and their analytics record them. Pure.

Algolia has two kinds of records, of which each event is one: the logged responses are the
impressions, the bodies of the Insights API the feedback.
"""

from collections.abc import Mapping
from typing import Any, Final, TypeAlias

from ...events.timestamps import timestamp_text
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
