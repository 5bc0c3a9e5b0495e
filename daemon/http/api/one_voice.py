"""The rows of the table say what the open changes above it say. Pure."""

from collections.abc import Collection, Mapping, Sequence

import msgspec

from ...events.timestamps import timestamp_text
from ...exporter.judgements import Judgement
from ...judging.ledger import Series
from ...judging.story import Measured, Moved, Story
from .compared import Change, Estimate, Verdict


def in_one_voice(rows: Sequence[Change], judged: Judgement) -> tuple[Change, ...]:
    """The rows as the open changes have them.

    What an open change names is worse since its onset, and the row has its level since then beside
    that before: a window that fills would dilute it. What is low only through that is diluted, and
    has its levels of the same times.
    """
    named: dict[Series, tuple[Story, Moved]] = {}
    shares: dict[Series, tuple[Story, Moved]] = {}
    for story in judged.open:
        for moved in (story.own, *story.also):
            named.setdefault(moved.series, (story, moved))
        for moved in story.shares:
            shares.setdefault(moved.series, (story, moved))
    explained = {series[:2] for series in shares}
    return tuple(_voiced(row, named, shares, explained) for row in rows)


def without_shared(rows: Sequence[Change], judged: Judgement) -> tuple[Change, ...]:
    """The rows as they are, but what is low only through an open change is diluted."""
    shares = {moved.series for story in judged.open for moved in story.shares}
    return tuple(
        (
            msgspec.structs.replace(row, verdict="diluted")
            if row.verdict == "worse" and (row.grouping, row.segment, row.metric) in shares
            else row
        )
        for row in rows
    )


def _voiced(
    row: Change,
    named: Mapping[Series, tuple[Story, Moved]],
    shares: Mapping[Series, tuple[Story, Moved]],
    explained: Collection[tuple[str, str]],
) -> Change:
    series = (row.grouping, row.segment, row.metric)
    if series in named:
        return _since_onset(row, *named[series], "worse")
    if series in shares:
        return _since_onset(row, *shares[series], "diluted")
    if row.verdict == "worse" and series[:2] in explained:
        return msgspec.structs.replace(row, verdict="diluted", since=None)
    return row


def _since_onset(row: Change, story: Story, moved: Moved, verdict: Verdict) -> Change:
    before, now = moved.before.mean, moved.now.mean
    return msgspec.structs.replace(
        row,
        now=_estimate(moved.now, moved.impressions[1]),
        before=_estimate(moved.before, moved.impressions[0]),
        difference=None if before is None or now is None else now - before,
        noise=moved.error,
        verdict=verdict,
        since=timestamp_text(round(story.fall.onset.likely)),
    )


def _estimate(measured: Measured, impressions: int) -> Estimate:
    return Estimate(measured.mean, measured.stderr, measured.scored, impressions)
