"""The one table of API routes: path, parameters, type of the answer, what it needs of Redis, and
what makes it.

The server, the OpenAPI document, the list of paths and CSV read it: a new route is one new entry.
"""

from typing import Final

from ...experiments import DayEffect, Findings, OverTime
from ...plan import ALL, Plan
from ...views import VIEWS, WINDOWS, Report, Score, Segment, matching
from .compared import Change
from .experiments import Bucket, Buckets, buckets, over_time
from .health import Health, health
from .history import (
    History,
    Hours,
    HourScore,
    JudgedHistory,
    JudgedPane,
    Pane,
    history,
    hours,
    judged_history,
    with_lost_hours,
)
from .judged import (
    CLASSES_PATH,
    JUDGED_PATH,
    ClassFiles,
    Judged,
    JudgedScore,
    class_files,
    judged,
)
from .loading import load_detail, load_missing, load_queries
from .marker_routes import MARKED
from .parameters import (
    BadRequest,
    Index,
    Listed,
    Query,
    QueryParameter,
    Segments,
    segments,
    whole_number,
)
from .queries import (
    ALLOWED_ORDERS,
    DETAIL_PATH,
    MISSING_PATH,
    MOST_PAIRS,
    MOST_ROWS,
    QUERIES_PATH,
    UnjudgedItem,
    UnjudgedItems,
    asked,
    detail,
    for_raters,
    queries,
    skipped_of,
    unjudged_items,
    with_unlisted_rows,
)
from .query_answers import Queries, QueryDetail, QueryHour, QueryRow
from .query_lists import Found
from .route import ERRORS_AT_ANY_TIME, RequestContext, Route
from .stories import AGAINST, Changes, changes


def _metrics(plan: Plan) -> tuple[str, ...]:
    return tuple(metric.name for metric in plan.metrics)


def _judged_metrics(plan: Plan) -> tuple[str, ...]:
    return () if plan.judged is None else tuple(metric.name for metric in plan.judged.metrics)


def _windows(plan: Plan) -> tuple[str, ...]:
    return tuple(window.name for window in plan.timing.windows)


# A segment may have any name: segments come and go with traffic.
_SEGMENTS: Final = (
    QueryParameter(
        "grouping", "Only this grouping.", repeatable=True, one_of=lambda plan: plan.grouping_names
    ),
    QueryParameter("segment", "Only segments with this name.", repeatable=True),
)
_FILTERS: Final = (
    QueryParameter("metric", "Only this metric.", repeatable=True, one_of=_metrics),
    *_SEGMENTS,
)
_PANES: Final = (
    QueryParameter(
        "window", "The window whose panes are returned.", required=True, one_of=_windows
    ),
    QueryParameter(
        "grouping", "The grouping.", default=ALL, one_of=lambda plan: plan.grouping_names
    ),
    QueryParameter("segment", "The segment.", default=ALL),
)
_HOURS: Final = QueryParameter(
    "window",
    "Whole hours that have settled; `now`: the open hour.",
    default="24h",
    one_of=lambda _: tuple(WINDOWS),
)
_METRIC: Final = QueryParameter("metric", "The metric; by default the first one.", one_of=_metrics)
_SEGMENT: Final = QueryParameter("segment", "Only in this segment of the grouping `queries.by`.")
_EXPERIMENT: Final = QueryParameter("experiment", "The experiment.", in_path=True)
_QUERY_ERRORS: Final = {
    400: "A parameter is unknown or not allowed: the error names the rule, or the setting.",
    404: "No queries are kept.",
    503: "Nothing is known yet, or Redis does not answer.",
}


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


def _judged_history(context: RequestContext, query: Query) -> JudgedHistory:
    return judged_history(context.reading, query["judged_metric"][0], *_shown(context, query))


def _changes(context: RequestContext, query: Query) -> Changes:
    (window,), (view,) = query["window"], query["view"]
    against = AGAINST[AGAINST.index(query["against"][0])]
    return changes(context.reading, window, view, query, against, context.now_ms)


def _over_time(context: RequestContext, query: Query) -> OverTime:
    return over_time(context.reading, query["experiment"][0], query.get("exclude", ()))


def _hours(context: RequestContext, query: Query) -> Hours:
    from_, to = (query.get(name, [None])[0] for name in ("from", "to"))
    return hours(context.reading, query, from_, to)


def _found(context: RequestContext, query: Query) -> Found:
    assert context.tables is not None, "loaded"
    wanted = asked(context.reading.plan, query)
    return Found(*context.tables, wanted.metric, wanted.segment)


def _queries(context: RequestContext, query: Query) -> Queries:
    wanted = asked(context.reading.plan, query)
    limit = whole_number("limit", query["limit"][0], MOST_ROWS)
    found = _found(context, query)
    skipped = 0 if wanted.cursor is None else skipped_of(wanted.cursor, found.window)
    return queries(found, wanted.order, limit, skipped)


def _missing(context: RequestContext, query: Query) -> UnjudgedItems:
    assert context.tables is not None, "loaded"
    return unjudged_items(*context.tables, whole_number("limit", query["limit"][0], MOST_PAIRS))


def _index(context: RequestContext, query: Query) -> Index:
    summaries = dict[str, str]()
    for route in ROUTES:
        for path in route.paths:
            summaries.setdefault(path, route.listed or route.summary)
    return Index(tuple(Listed(path, summary) for path, summary in summaries.items()))


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
            QueryParameter("window", "Only this window.", repeatable=True, one_of=_windows),
            QueryParameter("view", "Only this view.", repeatable=True, one_of=lambda _: VIEWS),
        ),
        Report,
        _scores,
        table=("scores", Score),
    ),
    Route(
        "/api/v1/history",
        "One metric of one segment, pane by pane, for all panes that are kept.",
        (
            QueryParameter("metric", "The metric.", required=True, one_of=_metrics),
            *_PANES,
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
        as_table=with_lost_hours,
    ),
    Route(
        JUDGED_PATH,
        "The scores by judgements, which wait for no feedback: of every window, and beside earlier"
        " hours that the same file graded.",
        (
            QueryParameter(
                "judged_metric",
                "Only this judged metric.",
                repeatable=True,
                one_of=_judged_metrics,
            ),
            *_SEGMENTS,
            QueryParameter(
                "window", "Only scores of this window.", repeatable=True, one_of=_windows
            ),
        ),
        Judged,
        lambda context, query: judged(context.reading, query),
        table=("scores", JudgedScore),
    ),
    Route(
        "/api/v1/judged/history",
        "One judged metric of one segment, pane by pane, since the file that grades it began.",
        (
            QueryParameter(
                "judged_metric", "The judged metric.", required=True, one_of=_judged_metrics
            ),
            *_PANES,
        ),
        JudgedHistory,
        _judged_history,
        table=("panes", JudgedPane),
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
            QueryParameter(
                "window", "The window that is compared.", required=True, one_of=_windows
            ),
            QueryParameter(
                "view",
                "`settled`, or `live`, which is preliminary.",
                default="settled",
                one_of=lambda _: VIEWS,
            ),
            QueryParameter(
                "against",
                "`worst`: an hour before, or before an open change. `hour`: an hour before. `day`,"
                " `weeks`: the last settled hours against those of yesterday or of the last weeks.",
                default="worst",
                one_of=lambda _: AGAINST,
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
        (_EXPERIMENT,),
        Buckets,
        lambda context, query: buckets(context.reading, query["experiment"][0]),
        table=("rows", Bucket),
    ),
    Route(
        "/api/v1/experiments/{experiment}/over-time",
        "The effect of an experiment on each day (UTC), and up to the end of each day.",
        (
            _EXPERIMENT,
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
        errors=ERRORS_AT_ANY_TIME,
        is_of_snapshot=False,
    ),
    Route("/api/v1/", "What there is.", (), Index, _index, errors=ERRORS_AT_ANY_TIME),
    *MARKED,
    Route(
        QUERIES_PATH,
        "Queries of a window: by searches, without results, and what lost or gained most.",
        (
            _HOURS,
            _METRIC,
            QueryParameter(
                "order",
                "By which the queries are listed.",
                default="impressions",
                one_of=lambda _: ALLOWED_ORDERS,
            ),
            _SEGMENT,
            QueryParameter(
                "limit",
                f"At most so many rows, up to {MOST_ROWS:,}. CSV has last rows in parentheses where"
                " the list ends, and none where more follow.",
                default="50",
            ),
            QueryParameter("cursor", "Where the answer before ended: its `next`."),
        ),
        Queries,
        _queries,
        load_queries,
        table=("rows", QueryRow),
        as_table=with_unlisted_rows,
        total=lambda found: found.listed,
        errors=_QUERY_ERRORS,
    ),
    Route(
        DETAIL_PATH,
        "One query by hour, and its searches that scored worst as they were shown.",
        (
            QueryParameter("query", "The text of the query."),
            _HOURS,
            _METRIC,
            _SEGMENT,
            QueryParameter("cursor", "The hours of a list instead of a window: its `next`."),
        ),
        QueryDetail,
        lambda context, query: detail(_found(context, query), query["query"][0]),
        load_detail,
        table=("hours", QueryHour),
        errors=_QUERY_ERRORS,
    ),
    Route(
        MISSING_PATH,
        "Items that were shown most for judged queries and are not judged.",
        (
            _HOURS,
            QueryParameter("limit", f"At most so many rows, up to {MOST_PAIRS:,}.", default="1000"),
        ),
        UnjudgedItems,
        _missing,
        load_missing,
        table=("rows", UnjudgedItem),
        as_table=for_raters,
        total=lambda found: found.listed,
        errors=_QUERY_ERRORS | {404: "Items without a judgement are not counted."},
    ),
)
