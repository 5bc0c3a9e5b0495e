"""A lane as one read of the store found it, packed as it is stored. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ...experiments.tallies import Tallies
from ...lane import hours
from ...lane.paged_rows import Pages
from ...panes import PaneKey
from ...plan import ALL, Plan
from ...storage import experiments as stored_experiments
from ...storage.head import Head, whole_or_damaged
from ...storage.keys import EXPERIMENTS_PREFIX, HOURS_PREFIX, parse_hour_page_key, parse_page_key
from ...storage.packing import unpack_page

Packed = Mapping[int, bytes]
"""Page → its rows, as they are stored."""


@dataclass(frozen=True)
class Stored:
    """One lane at one commit: that of `head`."""

    lane: int
    head: Head
    names: Sequence[tuple[int, str]]
    """(grouping index, segment) by segment id."""
    panes: Mapping[PaneKey, Packed]
    totals: Packed
    hours: Mapping[int, Packed]
    """By the start of the hour in ms."""
    experiments: Mapping[str, Tallies]
    """By name."""

    def unpacked(self, pages: Packed) -> Pages:
        """The rows of these pages. Raises Damaged."""
        with whole_or_damaged(f"lane {self.lane}"):
            return {page: unpack_page(data) for page, data in pages.items()}


def watermark_of(head: Head) -> int | None:
    """The watermark of the lane: the least of its topics'; None while one has none."""
    marks = [mark for mark in head.watermarks.values() if mark is not None]
    return min(marks) if marks and len(marks) == len(head.watermarks) else None


def begin_of(head: Head) -> dict[str, int]:
    """Return the offsets at which a lane began, by topic: without the topics whose log another one
    has replaced since, and those of which nothing says it."""
    replaced = head.counts.get("replaced_logs", {})
    return {topic: at for topic, at in (head.start or {}).items() if topic not in replaced}


def stored_lane(
    lane: int,
    head: Head,
    names: Sequence[tuple[int, str]],
    pages: Mapping[str, bytes],
    plan: Plan,
) -> Stored:
    """Return the lane of a whole read: its head, the names of its segments but for the whole, and
    its pages by key.

    A page that was dropped while the lane was read, in several calls, is left out: after the last
    call, everything else is as of its head. Raises Damaged."""
    panes, totals = dict[PaneKey, dict[int, bytes]](), dict[int, bytes]()
    of_hours, blobs = dict[int, dict[int, bytes]](), dict[str, bytes]()
    with whole_or_damaged(f"lane {lane}"):
        for key, data in pages.items():
            if key.startswith(EXPERIMENTS_PREFIX):
                blobs[key] = data
            elif key.startswith(HOURS_PREFIX):
                start, page = parse_hour_page_key(key)
                of_hours.setdefault(start, {})[page] = data
            else:
                pane, page = parse_page_key(key)
                of_pane = totals if pane is None else panes.setdefault(pane, {})
                of_pane[page] = data
        known = [entry.name for entry in head.state.experiments]
        blobs = stored_experiments.of_names(blobs, known)
        experiments = stored_experiments.read(blobs)
        stored_experiments.read_days(experiments, blobs)
    return Stored(
        lane,
        head,
        [(0, ALL), *names],
        _kept_panes(panes, head, plan),
        totals,
        _kept_hours(of_hours, head, plan),
        experiments,
    )


def _kept_panes(
    panes: Mapping[PaneKey, Packed], head: Head, plan: Plan
) -> Mapping[PaneKey, Packed]:
    watermark, timing = watermark_of(head), plan.timing
    if watermark is None:
        return panes
    limits = [timing.dropped_before(span, watermark) for span in timing.windows]
    return {key: pages for key, pages in panes.items() if key[1] >= limits[key[0]]}


def _kept_hours(found: Mapping[int, Packed], head: Head, plan: Plan) -> Mapping[int, Packed]:
    settled_before = head.state.settled_before
    if settled_before is None:
        return found
    first, lost = hours.kept_from(settled_before, plan), set(head.state.lost_hours)
    return {s: pages for s, pages in found.items() if s >= first and s not in lost}
