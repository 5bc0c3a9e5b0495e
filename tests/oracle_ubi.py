"""UBI as the oracle reads it, where lists are made of what was shown: as the native format."""

from collections.abc import Mapping

Json = dict[str, object]


def as_native(value: Mapping[str, object]) -> Json | str:
    """The native event of a UBI record, or the reason why there is none. An impression event is an
    impression of one item, at its rank."""
    if value.get("action_name") is None:
        return "no_query_id" if value.get("query_id") is None else "no_list"
    if value.get("query_id") is None:
        return "no_query_id"
    details = inner(value, "event_attributes")
    item, rank = inner(details, "object").get("object_id"), inner(details, "position").get(
        "ordinal"
    )
    if item is None and (not isinstance(rank, int) or rank < 1):
        return "no_item"
    native: Json = {"impression_id": value["query_id"], "timestamp": value.get("timestamp")}
    if value["action_name"] != "impression":
        kind = value["action_name"]
        return native | {"type": "feedback", "kind": kind, "item": item, "rank": rank}
    if item is None or not isinstance(rank, int) or rank < 1:
        return "no_item"
    experiments = inner(details, "experiments")
    attributes = {name: one for name, one in details.items() if not isinstance(one, dict)}
    if value.get("application") is not None:
        attributes["application"] = value["application"]
    native |= {"type": "impression", "items": [item], "first_rank": rank, "by_item": True}
    native |= {"attributes": attributes, "experiments": experiments}
    return native | {"user_id": value.get("user_id") or value.get("client_id")}


def inner(value: Mapping[str, object], name: str) -> Mapping[str, object]:
    found = value.get(name)
    return found if isinstance(found, dict) else {}
