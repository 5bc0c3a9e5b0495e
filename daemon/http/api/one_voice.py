"""The rows of the table say what the open changes above it say. Pure."""

from collections.abc import Collection, Mapping, Sequence

import msgspec

from ...events.timestamps import timestamp_text
from ...exporter.judgements import Judgement
from ...judging.ledger import Series
from ...judging.story import Measured, Moved, Story
from .compared import Change, Estimate


def in_one_voice(rows: Sequence[Change], judged: Judgement) -> tuple[Change, ...]:
    """The rows as the open changes have them.

    What an open change names is worse since its onset, and the row has its level since then beside
    that before: a window that fills would dilute it. What is low only through that is diluted.
    """
    named: dict[Series, tuple[Story, Moved]] = {}
    diluted: set[Series] = set()
    for story in judged.open:
        for moved in (story.own, *story.also):
            named.setdefault(moved.series, (story, moved))
        diluted |= {moved.series for moved in story.diluted}
    explained = {series[:2] for series in diluted}
    return tuple(_voiced(row, named, diluted, explained) for row in rows)


def _voiced(
    row: Change,
    named: Mapping[Series, tuple[Story, Moved]],
    diluted: Collection[Series],
    explained: Collection[tuple[str, str]],
) -> Change:
    series = (row.grouping, row.segment, row.metric)
    if series in named:
        return _since_onset(row, *named[series])
    low_through_others = row.verdict == "worse" and series[:2] in explained
    if series in diluted or low_through_others:
        return msgspec.structs.replace(row, verdict="diluted", since=None)
    return row


def _since_onset(row: Change, story: Story, moved: Moved) -> Change:
    before, now = moved.before.mean, moved.now.mean
    return msgspec.structs.replace(
        row,
        now=_estimate(moved.now, moved.impressions[1]),
        before=_estimate(moved.before, moved.impressions[0]),
        difference=None if before is None or now is None else now - before,
        noise=moved.error,
        verdict="worse",
        since=timestamp_text(round(story.fall.onset.likely)),
    )


def _estimate(measured: Measured, impressions: int) -> Estimate:
    return Estimate(measured.mean, measured.stderr, measured.scored, impressions)
