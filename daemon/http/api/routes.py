"""The one table of API routes: path, parameters, type of the answer, and what makes it.

The handlers and the OpenAPI document are made from it: a new route is one new entry.
"""

from typing import Final

from ...errors import Damaged
from ...experiments import DayEffect, Findings, OverTime
from ...plan import ALL
from ...views import Report, Score, Segment, matching
from . import parameters
from .compared import Change
from .experiments import Bucket, Buckets, buckets, over_time
from .health import Health, health
from .history import History, Hours, HourScore, Pane, history, hours
from .judged import (
    CLASSES_PATH,
    JUDGED_PATH,
    ClassFiles,
    Judged,
    JudgedHistory,
    JudgedScore,
    class_files,
    judged,
    judged_history,
)
from .parameters import MARKER_PATHS, BadRequest, Index, Listed, QueryParameter, Segments, segments
from .queries import TABLES
from .route import Query, RequestContext, Route
from .stories import AGAINST, Changes, changes

_FILTERS: Final = (
    QueryParameter("metric", "Only this metric.", repeatable=True),
    QueryParameter("grouping", "Only this grouping.", repeatable=True),
    QueryParameter("segment", "Only segments with this name.", repeatable=True),
)


def _scores(context: RequestContext, query: Query) -> Report:
    report = context.published.report
    assert report is not None, "published with its reading"
    return matching(report, query) if query else report


def _history(context: RequestContext, query: Query) -> History:
    return history(context.reading, query["metric"][0], *_shown(context, query))


def _shown(context: RequestContext, query: Query) -> tuple[Segment, str]:
    """(segment, window). Raises BadRequest where no such segment is shown."""
    (grouping,), (segment,), (window,) = (query[name] for name in ("grouping", "segment", "window"))
    if (grouping, segment) not in context.reading.selection.segments:
        raise BadRequest(
            404,
            f"segment={segment}: no segment of grouping={grouping} is shown under this name; "
            "/api/v1/segments lists them",
        )
    return (grouping, segment), window


def _judged(context: RequestContext, query: Query) -> Judged:
    return judged(context.reading, query)


def _judged_history(context: RequestContext, query: Query) -> JudgedHistory:
    return judged_history(context.reading, query["judged_metric"][0], *_shown(context, query))


def _changes(context: RequestContext, query: Query) -> Changes:
    (window,), (view,) = query["window"], query["view"]
    against = AGAINST[AGAINST.index(query["against"][0])]
    return changes(context.reading, window, view, query, against)


def _buckets(context: RequestContext, query: Query) -> Buckets:
    return buckets(context.reading, query["experiment"][0])


def _over_time(context: RequestContext, query: Query) -> OverTime:
    return over_time(context.reading, query["experiment"][0], query.get("exclude", ()))


def _hours(context: RequestContext, query: Query) -> Hours:
    from_, to = (query.get(name, [None])[0] for name in ("from", "to"))
    try:
        return hours(context.reading, query, from_, to)
    except Damaged as error:
        raise BadRequest(503, str(error)) from error


def _index(context: RequestContext, query: Query) -> Index:
    listed = [Listed(path, route.summary) for route in ROUTES for path in route.paths]
    of_queries = [
        Listed(path + suffix, route.summary)
        for path, route in TABLES.items()
        for suffix in ("", parameters.SUFFIX)
    ]
    return Index((*listed, *of_queries, *MARKER_PATHS))


def _health(context: RequestContext, query: Query) -> Health:
    return health(
        context.published, context.telemetry.status(), context.role, context.version, context.now_ms
    )


ROUTES: Final = (
    Route(
        "/api/v1/scores",
        "The scores of every window, metric and shown segment.",
        (
            *_FILTERS,
            QueryParameter("window", "Only this window.", repeatable=True),
            QueryParameter("view", "Only this view.", repeatable=True),
        ),
        Report,
        _scores,
        table=("scores", Score),
    ),
    Route(
        "/api/v1/history",
        "One metric of one segment, pane by pane, for all panes that are kept.",
        (
            QueryParameter("metric", "The metric.", required=True),
            QueryParameter("window", "The window whose panes are returned.", required=True),
            QueryParameter("grouping", "The grouping.", default=ALL),
            QueryParameter("segment", "The segment.", default=ALL),
        ),
        History,
        _history,
        table=("panes", Pane),
    ),
    Route(
        "/api/v1/hours",
        "The hours of event time that are kept, over what has settled: by default the last day.",
        (
            *_FILTERS,
            QueryParameter("from", "Hours from this time on, such as 2026-11-20T12:00:00Z."),
            QueryParameter("to", "Hours before this time."),
        ),
        Hours,
        _hours,
        table=("rows", HourScore),
    ),
    Route(
        JUDGED_PATH,
        "The scores by judgements, which wait for no feedback: of every window, and beside earlier"
        " hours that the same file graded.",
        (
            QueryParameter("judged_metric", "Only this judged metric.", repeatable=True),
            *_FILTERS[1:],
            QueryParameter("window", "Only scores of this window.", repeatable=True),
        ),
        Judged,
        _judged,
        table=("scores", JudgedScore),
    ),
    Route(
        "/api/v1/judged/history",
        "One judged metric of one segment, pane by pane, since the file that grades it began.",
        (
            QueryParameter("judged_metric", "The judged metric.", required=True),
            QueryParameter("window", "The window whose panes are returned.", required=True),
            QueryParameter("grouping", "The grouping.", default=ALL),
            QueryParameter("segment", "The segment.", default=ALL),
        ),
        JudgedHistory,
        _judged_history,
        table=("panes", Pane),
    ),
    Route(
        CLASSES_PATH,
        "The files of classes by which the lanes derive attributes of queries, and those that they"
        " refused.",
        (),
        ClassFiles,
        lambda context, _: class_files(context.reading),
    ),
    Route(
        "/api/v1/changes",
        "What got better or worse: the open changes, and each segment now and before.",
        (
            *_FILTERS,
            QueryParameter("window", "The window that is compared.", required=True),
            QueryParameter(
                "view", "`settled`, or `live`, which is preliminary.", default="settled"
            ),
            QueryParameter(
                "against",
                "`worst`: an hour before, or before an open change. `hour`: an hour before. `day`,"
                " `weeks`: the last settled hours against those of yesterday or of the last weeks.",
                default="worst",
            ),
        ),
        Changes,
        _changes,
        table=("changes", Change),
    ),
    Route(
        "/api/v1/segments",
        "The shown segments of each grouping, busiest first.",
        (),
        Segments,
        lambda context, _: segments(context.reading),
    ),
    Route(
        "/api/v1/experiments",
        "The experiments: each variant against its control, valid however often it is read.",
        (),
        Findings,
        lambda context, _: context.reading.experiments,
    ),
    Route(
        "/api/v1/experiments/{experiment}/buckets",
        "The tallies of an experiment in 64 buckets of users: what its statements are made of.",
        (QueryParameter("experiment", "The experiment.", in_path=True),),
        Buckets,
        _buckets,
        table=("rows", Bucket),
    ),
    Route(
        "/api/v1/experiments/{experiment}/over-time",
        "The effect of an experiment on each day (UTC), and up to the end of each day.",
        (
            QueryParameter("experiment", "The experiment.", in_path=True),
            QueryParameter(
                "exclude",
                "Leave out these days, such as 2026-11-20/2026-11-21: for a cause outside of the"
                " outcome, such as an outage.",
                repeatable=True,
            ),
        ),
        OverTime,
        _over_time,
        table=("days", DayEffect),
    ),
    Route(
        "/api/v1/health",
        "The state of the pipeline as this process sees it. Every process answers at any time.",
        (),
        Health,
        _health,
        of_scores=False,
    ),
    Route("/api/v1/", "What there is.", (), Index, _index, of_scores=False),
)
