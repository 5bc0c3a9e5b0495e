"""The routes of what people say: markers, and acknowledgements of changes."""

from typing import Final

from .acknowledgements import AcknowledgementPosted, Withdrawn
from .loading import (
    ACKNOWLEDGE_PATH,
    MARKERS_PATH,
    acknowledge,
    load_markers,
    remove_marker,
    set_marker,
    withdraw,
)
from .markers import Acknowledged, MarkerAnswer, MarkerPosted, Markers, Removed, acknowledged, shown
from .parameters import Query, QueryParameter
from .route import RequestContext, Route

_CHANGE: Final = QueryParameter("id", "Its id in /api/v1/changes.", in_path=True)
_MARKER_ERRORS: Final = {
    400: "A value is not allowed: the error names it and the rule.",
    403: "The client must not change markers: the error says why, and the way out.",
    404: "There is no such marker.",
    408: "The body did not arrive in time.",
    409: "The id is that of another marker, or there are too many.",
    413: "The body is too long.",
    415: "The body is not said to be JSON.",
    503: "Redis does not answer.",
}


def _marker_errors(*statuses: int) -> dict[int, str]:
    return {status: _MARKER_ERRORS[status] for status in statuses}


def _acknowledged(context: RequestContext, _: Query) -> Acknowledged:
    found = acknowledged(*context.marked)
    assert found is not None, "stored"
    return found


MARKED: Final = (
    Route(
        MARKERS_PATH,
        "Set a marker; with an id, once however often it is posted.",
        (),
        MarkerAnswer,
        lambda context, _: shown(*context.marked),
        set_marker,
        method="POST",
        body=MarkerPosted,
        statuses={201: "It is stored.", 200: "It was stored before."},
        errors=_marker_errors(400, 403, 408, 409, 413, 415, 503),
        operation="set_marker",
        listed="What people marked, by time. POST sets a marker.",
    ),
    Route(
        MARKERS_PATH,
        "What people marked, by time.",
        (
            QueryParameter("from", "Markers from this time on, such as 2026-11-20T12:00:00Z."),
            QueryParameter("to", "Markers before this time."),
        ),
        Markers,
        lambda context, _: Markers(tuple(map(shown, context.marked))),
        load_markers,
        statuses={200: "The markers."},
        errors=_marker_errors(400, 503),
    ),
    Route(
        MARKERS_PATH + "/{id}",
        "Remove a marker.",
        (QueryParameter("id", "Its id.", in_path=True),),
        Removed,
        lambda _, query: Removed(*query["id"]),
        remove_marker,
        method="DELETE",
        statuses={200: "It is removed."},
        errors=_marker_errors(400, 403, 404, 503),
        operation="remove_marker",
        listed="DELETE removes a marker.",
    ),
    Route(
        ACKNOWLEDGE_PATH,
        "Say that an open change is known; it silences no alert.",
        (_CHANGE,),
        Acknowledged,
        _acknowledged,
        acknowledge,
        method="POST",
        body=AcknowledgementPosted,
        statuses={201: "It is said.", 200: "It is said instead of what was said before."},
        errors=_marker_errors(400, 403, 408, 409, 413, 415, 503)
        | {404: "No such change is open: the error lists those that are."},
        operation="acknowledge_change",
        listed="POST acknowledges an open change, DELETE withdraws that.",
    ),
    Route(
        ACKNOWLEDGE_PATH,
        "Withdraw it.",
        (_CHANGE,),
        Withdrawn,
        lambda _, query: Withdrawn(*query["id"]),
        withdraw,
        method="DELETE",
        statuses={200: "It is not said any more."},
        errors=_marker_errors(400, 403, 503) | {404: "No such change is acknowledged."},
        operation="withdraw_acknowledgement",
    ),
)
