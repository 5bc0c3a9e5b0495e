"""What `check-config` warns of: slow expressions, searches without users or queries, metrics by
which a query without clicks loses nothing, and groupings by attributes that nothing names.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import fields, is_dataclass

import numpy as np

from relevanced.metrics import Lists, Metric

from ..events import SHOWN, Limits
from ..mapping import ALL_MEMBERS, Expression, outside_of, slow_part
from ..plan import EXPERIMENT_PREFIX, NONE
from ..queries import USER_ID
from .mapped_sources import applied_sources
from .sections.queries import QueriesSection
from .sections.source_checks import Sources


def slow_expressions(sources: Sources) -> Iterator[str]:
    """A sentence for each expression that is slow by nature, or makes the interpreter read its
    topic."""
    for source in applied_sources(sources):
        for expression in _expressions(source):
            part = slow_part(expression.tree)
            if part is not None:
                yield f"{expression.key}: slow by nature, as it sorts or visits everything: {part}"
        slow = {one.key for one in _expressions(source) if slow_part(one.tree) is not None}
        for key, outside in outside_of(source):
            if key not in slow:
                yield f"{key}: outside the compiled subset, so the topic is read slowly: {outside}"


def tables_without_users(sources: Sources, queries: QueriesSection) -> Iterator[str]:
    """A sentence for each table of impressions whose searches the tables of queries count for no
    user, so that no text of them is ever shown."""
    if not queries.is_on or not queries.min_users:
        return
    for source in applied_sources(sources):
        for index, table in enumerate(source.impressions):
            named = [table.user, table.visitor]
            if queries.user != USER_ID:
                attributes = table.attributes or {}
                named = [attributes.get(name) for name in (queries.user, ALL_MEMBERS)]
            if not any(named):
                several = f"[{index}]" if len(source.impressions) > 1 else ""
                yield (
                    f"{source.key}.impression{several}: names no {queries.user}, so no query of it"
                    f" has queries.min_users={queries.min_users} users, and no text is shown; 0"
                    " shows all"
                )


def queries_of_shown_items(limits: Limits) -> Iterator[str]:
    """A sentence where queries are needed, and lists are made of UBI's events, which need not have
    any."""
    if limits.queries and limits.ubi_lists == SHOWN:
        yield (
            f"events.ubi_lists={SHOWN}: an event of UBI has no query unless the client adds"
            " user_query to each with the action impression: without it, all searches are without"
            " a query"
        )


def metrics_blind_to_lost_clicks(
    metrics: Sequence[Metric], queries: QueriesSection
) -> Iterator[str]:
    """A sentence for each metric by which tables of queries say what was lost, and that is
    undefined for a list without a click: of a query that loses all clicks there is nothing to
    compare."""
    unclicked = Lists.of([[0.0, 0.0]])
    for metric in metrics if queries.is_on else ():
        known = metric.entry.range == (0.0, 1.0) and metric.needs == "impression"
        if known and np.isnan(metric.values(unclicked)).any():
            yield (
                f"{metric.name} is undefined without a click: a query that loses all clicks has"
                " lost nothing by it, and is not among the worst; its family with"
                " (undefined=zero), as in nDCG(undefined=zero)@10, counts such lists as 0"
            )


def groupings_without_attributes(
    sources: Sources, groupings: Sequence[Sequence[str]], derived: Collection[str]
) -> Iterator[str]:
    """A sentence for each attribute of a grouping that no table of impressions names and that is
    not derived, so that all impressions are of one segment. Of event formats, which take whatever
    attributes their events have, nothing is known before."""
    applied = applied_sources(sources)
    if not applied or any(source.reader is not None for source in applied):
        return
    named = {
        name
        for source in applied
        for table in source.impressions
        for name in table.attributes or ()
    }
    wanted = dict.fromkeys(name for grouping in groupings for name in grouping)
    for name in wanted:
        if ALL_MEMBERS not in named and not (
            name in named or name in derived or name.startswith(EXPERIMENT_PREFIX)
        ):
            yield (
                f"segments.groupings: no table of [[sources]] names the attribute {name!r} in"
                f" impression.attributes, so all impressions have {NONE} there"
            )


def _expressions(value: object) -> Iterator[Expression]:
    if isinstance(value, Expression):
        yield value
    elif isinstance(value, tuple):
        for one in value:
            yield from _expressions(one)
    elif isinstance(value, Mapping):
        yield from _expressions(tuple(value.values()))
    elif is_dataclass(value) and not isinstance(value, type):
        yield from _expressions(tuple(getattr(value, entry.name) for entry in fields(value)))
