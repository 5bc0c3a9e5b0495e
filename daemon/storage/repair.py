"""The commit that writes all of a lane from its owner's memory: it repairs a damaged lane, or puts
it under another layout. Pure.

A running owner has all of its lane in memory but the rows of past hours. So whatever the store lost
of the rest can be written again, and the numbers are those of the log, integer for integer.
"""

from collections.abc import Sequence
from dataclasses import replace

from ..experiments.tallies import USER_PAGES
from ..lane.lane import Lane
from . import query_examples
from .commit import ClaimedLane, Commit, plan_commit
from .keys import ROW_KEYS, block_key
from .query_head import hour_key, hour_of
from .rows import past_keys


def past_hour_keys(lane: Lane) -> list[str]:
    """Return the keys of the lane that only the store has."""
    return [*_followed_keys(lane), *_query_keys(lane)]


def _followed_keys(lane: Lane) -> list[str]:
    return [key for pair in zip(lane.row_sets, ROW_KEYS) for key in past_keys(*pair)]


def _query_keys(lane: Lane) -> list[str]:
    queries = lane.queries
    if queries is None:
        return []
    examples = map(query_examples.hour_key, queries.examples.stored)
    return [*map(hour_key, queries.stored), *examples]


def lose_hours(lane: Lane, missing: Sequence[str]) -> None:
    """Note that these pages of past hours are missing in the store."""
    for rows, keys in zip(lane.row_sets, ROW_KEYS):
        rows.lose_hours({hour[0] for key in missing if (hour := keys.of_hour(key)) is not None})
    for start in [hour_of(key) for key in missing]:
        if start is not None and lane.queries is not None:
            lane.queries.lose(start)
    for start in [query_examples.hour_of(key) for key in missing]:
        if start is not None and lane.queries is not None:
            lane.queries.examples.lose(start)


def plan_repair(claimed: ClaimedLane, idle_ms: int | None = None) -> Commit:
    """Return what to write so that the store contains the whole lane as it is now, whatever it has
    lost but past hours. May take long in a large lane: meant for a thread."""
    lane = claimed.lane
    _mark_all_as_changed(lane)
    whole = replace(
        claimed,
        log=[],
        names=1,
        next_slot=lane.open.base,
        next_serial=min(lane.waiting.by_serial, default=lane.waiting.next_serial),
        layouts_stored=False,
    )
    commit = plan_commit(whole, idle_ms)
    blocks = [block_key(block.entry.number) for block in claimed.log if block.entry is not None]
    outdated = claimed.outdated - commit.blobs.keys() - set(commit.unlinked) - set(blocks)
    unlinked = [*commit.unlinked, *blocks, *sorted(outdated)]
    return replace(
        commit, unlinked=unlinked, kept=_followed_keys(lane), kept_unread=_query_keys(lane)
    )


def _mark_all_as_changed(lane: Lane) -> None:
    experiments = lane.experiments
    for rows in lane.row_sets:
        rows.mark_all_rows()
    lane.changes.total_pages |= set(lane.totals.page_numbers)
    experiments.changed |= experiments.by_name.keys()
    experiments.user_pages |= {
        (name, page) for name in experiments.by_name for page in range(USER_PAGES)
    }
    experiments.ended |= {
        (name, day_ms) for name, one in experiments.by_name.items() for day_ms in one.ends
    }
    if lane.queries is not None:
        lane.queries.is_outdated = True
    if len(lane.segments.names) > 1:
        for admission in lane.admissions.values():
            admission.changed = True
