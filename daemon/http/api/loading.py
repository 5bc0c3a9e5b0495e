"""The loaders of routes: what they read from Redis before an answer is made in a thread, and what
they store there.
"""

import asyncio
import secrets
from collections.abc import Collection
from dataclasses import replace
from functools import partial
from typing import Final

from ...changes import MOST_MARKERS, between, happened
from ...errors import Unavailable
from ...exporter import MarkerStore, WindowOf, packed_markers, unpacked
from ...views import missing_window, of_hours, window_of
from .acknowledgements import acknowledgement, not_open
from .changes import all_open
from .markers import is_same, posted, span
from .parameters import BadRequest, Query, quoted
from .queries import asked, check_missing
from .route import RequestContext

MARKERS_PATH: Final = "/api/v1/markers"
ACKNOWLEDGE_PATH: Final = "/api/v1/changes/{id}/acknowledge"


async def load_queries(
    context: RequestContext, query: Query, *, examples: bool = False
) -> RequestContext:
    """The tables of the hours that are asked for: those of a window, or those of a list before."""
    reading = context.reading
    wanted, hour_ms = asked(reading.plan, query), reading.plan.hour_ms
    outages, zone = reading.clicks.outages, reading.change_settings.time_zone
    hours: WindowOf = partial(
        window_of, name=wanted.window, hour_ms=hour_ms, outages=outages, zone=zone
    )
    if wanted.cursor is not None:
        listed = range(wanted.cursor.from_ms, wanted.cursor.until_ms, hour_ms)
        hours = partial(of_hours, hours=listed, outages=outages, zone=zone)
    return await _with_tables(context, hours, examples)


async def load_detail(context: RequestContext, query: Query) -> RequestContext:
    """The same, with the examples of these hours, and without what is usual."""
    if "query" not in query:
        raise BadRequest(400, "query: must be given")
    return await load_queries(context, query, examples=True)


async def load_missing(context: RequestContext, query: Query) -> RequestContext:
    """The tables of items that were shown for judged queries and are not judged."""
    plan = context.reading.plan
    check_missing(plan)
    (name,) = query["window"]
    return await _with_tables(context, partial(missing_window, name=name, hour_ms=plan.hour_ms))


async def _with_tables(
    context: RequestContext, window_of: WindowOf, examples: bool = False
) -> RequestContext:
    if context.query_reads is None:
        raise BadRequest(503, "this process has no store to read queries from")
    reading = context.reading
    lanes = [view.lane for view in reading.views if view.has_or_lost_events]
    read = context.query_reads.read
    window, tables = await read(lanes, reading.plan, window_of, examples=examples)
    if not window.until_ms:
        raise BadRequest(503, "no pane has settled yet whose impressions have queries")
    return replace(context, tables=(tables, window))


async def load_markers(context: RequestContext, query: Query) -> RequestContext:
    """The markers of the span that is asked for."""
    from_ms, to_ms = span(query)
    store = context.markers.store
    stored = None if store is None else await store.read()
    markers = unpacked(() if stored is None else stored.markers)
    return replace(context, marked=between(happened(markers), from_ms, to_ms))


async def set_marker(context: RequestContext, _: Query) -> RequestContext:
    """Store the marker that is posted, unless it is stored."""
    store = context.markers.store
    fresh_id = f"m-{secrets.token_hex(8)}"
    marker, says_when = posted(context.body, fresh_id, context.now_ms, context.markers.rules)
    if store is None:
        raise Unavailable("this server has no store for markers")
    stored = await store.add(marker.id, packed_markers(marker), MOST_MARKERS)
    if stored is False:
        raise _full()
    if stored is True:
        return replace(context, marked=(marker,), status=201)
    (known,) = unpacked([stored]) or (None,)
    if known is None or not is_same(marker, known, says_when):
        rule = "is the id of another marker: choose another id, or remove that one"
        raise BadRequest(409, f"id={marker.id}: {rule} with DELETE {MARKERS_PATH}/{marker.id}")
    return replace(context, marked=(known,))


async def remove_marker(context: RequestContext, query: Query) -> RequestContext:
    """Remove the marker of an id."""
    (name,), store = query["id"], context.markers.store
    if store is None or not await store.remove([name]):
        raise BadRequest(404, f"id={name}: there is no such marker: GET {MARKERS_PATH} lists them")
    return context


def _full() -> BadRequest:
    rule = f"there are {MOST_MARKERS:,} markers, the most that are kept"
    return BadRequest(409, f"{rule}: remove some with DELETE {MARKERS_PATH}/{{id}}")


async def acknowledge(context: RequestContext, query: Query) -> RequestContext:
    """Store that an open change is acknowledged, in place of what was said of it before."""
    (change,), store = query["id"], context.markers.store
    fresh_id = f"a-{secrets.token_hex(8)}"
    marker = acknowledgement(context.body, change, fresh_id, context.now_ms, context.user)
    known = await asyncio.to_thread(all_open, context.reading)
    ids = next((incident.ids for incident in known if change in incident.ids), None)
    if ids is None:
        raise not_open(change, [incident.identity for incident in known])
    if store is None:
        raise Unavailable("this server has no store for acknowledgements")
    former = await _acknowledged(store, ids)
    # Those that it replaces are removed next, so that all places may be taken.
    most = MOST_MARKERS + len(former)
    if await store.add(marker.id, packed_markers(marker), most) is False:
        raise _full()
    await store.remove(former)
    return replace(context, marked=(marker,), status=200 if former else 201)


async def withdraw(context: RequestContext, query: Query) -> RequestContext:
    """Remove what was said of a change."""
    (change,), store = query["id"], context.markers.store
    known = await asyncio.to_thread(all_open, context.reading)
    ids = next((each.ids for each in known if change in each.ids), frozenset((change,)))
    former = [] if store is None else await _acknowledged(store, ids)
    if store is None or not await store.remove(former):
        raise BadRequest(404, f"id={quoted(change)}: no such change is acknowledged")
    return context


async def _acknowledged(store: MarkerStore, ids: Collection[str]) -> list[str]:
    stored = await store.read()
    markers = unpacked(() if stored is None else stored.markers)
    return [marker.id for marker in markers if marker.change in ids]
