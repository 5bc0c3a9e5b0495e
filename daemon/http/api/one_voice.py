"""The rows of the table say what the open changes above it say. Pure."""

from collections.abc import Collection, Mapping, Sequence

import msgspec

from ...events.timestamps import timestamp_text
from ...exporter.judgements import Judgement
from ...judging.story import ALL, Story
from .compared import Change


def in_one_voice(rows: Sequence[Change], judged: Judgement) -> tuple[Change, ...]:
    """The rows as the open changes have them: what they name is worse since its onset, and what
    is low only through them is diluted."""
    named: dict[tuple[str, str, str], Story] = {}
    diluted: set[tuple[str, str, str]] = set()
    for story in judged.open:
        grouping, _, metric = story.fall.series
        own = [(grouping, segment, metric) for segment in story.segments]
        for series in (*own, *(moved.series for moved in story.also)):
            named.setdefault(series, story)
        diluted |= {moved.series for moved in story.diluted if moved.series[:2] != ALL}
    return tuple(_voiced(row, named, diluted) for row in rows)


def _voiced(
    row: Change,
    named: Mapping[tuple[str, str, str], Story],
    diluted: Collection[tuple[str, str, str]],
) -> Change:
    series = (row.grouping, row.segment, row.metric)
    if series in named:
        since = timestamp_text(round(named[series].fall.onset.likely))
        return msgspec.structs.replace(row, verdict="worse", since=since)
    if series in diluted or (row.verdict == "worse" and _is_explained(row, named)):
        return msgspec.structs.replace(row, verdict="diluted", since=None)
    return row


def _is_explained(row: Change, named: Mapping[tuple[str, str, str], Story]) -> bool:
    """Whether an open change of other segments, by any metric, explains that this one is low."""
    own = (row.grouping, row.segment)
    return own != ALL and any(
        own in {moved.series[:2] for moved in story.diluted} for story in named.values()
    )
