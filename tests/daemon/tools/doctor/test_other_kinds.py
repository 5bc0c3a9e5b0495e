"""Events of kinds that the preset does not know are counted, and named where that is asked for."""

from typing import Any

import pytest

from relevanced.daemon.tools.doctor import diagnosed
from relevanced.daemon.tools.traffic import SHAPES
from tests.daemon.tools.doctor.test_diagnosis import native_events, records, said

NAME = "other kinds in shop"


def test_reactions_of_the_shop_s_own_are_counted() -> None:
    sample = {"shop": records(SHAPES["elastic"].record)}
    kinds = [event["kind"] for _, event in native_events() if event["type"] == "feedback"]
    carts, orders = kinds.count("add_to_cart"), kinds.count("purchase")
    hidden, shown = (said(diagnosed(sample, [], values=values)[0])[NAME] for values in (0, 1))
    assert hidden.level == "look" and carts > orders > 0
    assert hidden.words.startswith(f"{carts + orders} records have another event.action than")
    assert "purchase" not in hidden.words
    assert shown.words.endswith(f"(add_to_cart {carts}, purchase {orders})")


@pytest.mark.parametrize("in_batches", [False, True])
def test_page_views_are_counted_in_batches_too(in_batches: bool) -> None:
    def with_page(event: dict[str, Any]) -> Any:
        page = {"type": "page", "event": "Page Viewed"}
        call = SHAPES["segment"].record(event)
        if in_batches:
            return {"batch": [page, call]}
        return page if event.get("kind") == "purchase" else call

    found = said(diagnosed({"shop": records(with_page)}, [], values=True)[0])
    events = native_events()
    orders = sum(event.get("kind") == "purchase" for _, event in events)
    assert "1 value: add" in found[NAME].words
    assert f"(Page Viewed {len(events) if in_batches else orders:,})" in found[NAME].words


@pytest.mark.parametrize("preset", ["segment", "metarank", "ubi"])
def test_nothing_is_said_where_all_kinds_are_known(preset: str) -> None:
    found, _ = diagnosed({"shop": records(SHAPES[preset].record)}, [])
    assert NAME not in said(found)
