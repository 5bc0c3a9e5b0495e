"""What is to be said of ranks, times, ids and attributes of events. Pure."""

from collections.abc import Iterator, Mapping
from typing import Final

from ...config.row_sections import AttributionSection
from ...config.settings import Config
from . import looked as of
from .finding import Finding, percent
from .looked import Looked
from .ranks import FEW, Offsets, agreed, explained_by, rank_offsets
from .times import IN_WORDS

LEAST_DISTINCT_IDS: Final = 0.2
MOST_SKEW_S: Final = 300
"""As `events.max_future`: what is further ahead is rejected."""
SHOWN_VALUES: Final = 5
USUAL: Final = AttributionSection()
"""The defaults, which the proposal keeps where they suffice."""
LATENESS_AT: Final = 99
WINDOW_AT: Final = 95
"""Percentiles of disorder and of delays that lateness and window must cover."""


def found(
    looked: Looked, config: Config, units: Mapping[str, str], values: bool
) -> Iterator[Finding]:
    """All lines. `units`: in which times are written, by topic. `values`: whether values of
    attributes are shown; one may turn out to be an id of persons."""
    yield from _ranks(looked, values)
    yield from _times(looked, units)
    yield from _ids(looked)
    yield from _repeated(looked)
    yield from _attributes(looked, config)


def needed_lateness_s(looked: Looked) -> float:
    """The lateness that nearly all events need."""
    values = of.percentiles(of.disorder_s(looked), (LATENESS_AT,))
    return values[0] if values else 0.0


def needed_window_s(looked: Looked) -> float:
    """The attribution window that most feedback needs, as far as a sample of this length shows."""
    values = of.percentiles(of.delays_s(looked), (WINDOW_AT,))
    return values[0] if values else 0.0


def _ranks(looked: Looked, values: bool) -> Iterator[Finding]:
    offsets, name = rank_offsets(looked), "ranks"
    if offsets.total() < FEW:
        return
    offset = agreed(offsets)
    if offset is None:
        yield Finding(name, "wrong", _mixed(offsets, explained_by(looked), values))
        return
    share = percent(offsets[offset] / offsets.total())
    if offset:
        base = 1 + offset
        words = f"{share} of the feedback counts ranks from {base}: rank_base = {base}"
        yield Finding(name, "wrong", words)
    else:
        yield Finding(
            name, "good", f"{share} of the ranks in feedback are those of the items in their lists"
        )


def _mixed(offsets: Offsets, explained: tuple[str, Mapping[str, int]] | None, values: bool) -> str:
    """The words for ranks that do not agree; values of attributes only where they are asked for."""
    common = offsets.most_common(4)
    listed = ", ".join(f"{offset:+d}: {percent(n / offsets.total())}" for offset, n in common)
    words = f"mixed: reported rank less rank in the list is {listed}"
    if explained is None:
        return words
    attribute, by_value = explained
    words += f"; by {attribute} they agree"
    if values:
        words += " (" + ", ".join(f"{value}: {of:+d}" for value, of in by_value.items()) + ")"
    return f"{words}: map each in a table of its own, with its `where` and rank_base"


def _times(looked: Looked, units: Mapping[str, str]) -> Iterator[Finding]:
    if skews := of.percentiles(of.skews_s(looked), (1, 50, 99)):
        low, middle, high = (round(skew, 1) + 0.0 for skew in skews)  # no -0.0
        span = f"from {low:+.1f} s to {high:+.1f} s"
        if low == high:
            span = f"{low:+.1f} s"
        words = f"event time minus record time: {span} for 98 % of the events"
        words += f", median {middle:+.1f} s" if low != high else ""
        listed = sorted({IN_WORDS.get(unit, unit) for unit in units.values()})
        words = f"written in {' and '.join(listed)}; {words}" if listed else words
        ahead = high > MOST_SKEW_S
        words += (
            ": events that are further ahead than events.max_future are refused" if ahead else ""
        )
        yield Finding("time", "wrong" if ahead else "good", words)
    late_s, lateness_s = needed_lateness_s(looked), USUAL.lateness_s
    words = f"99 % of the events come within {late_s:.1f} s after later ones of their partition"
    words = (
        words
        if late_s
        else "99 % of the events come in the order of their times, partition by partition"
    )
    if late_s > lateness_s:
        words += f": with attribution.lateness of {lateness_s} s they are late; the proposal waits"
    yield Finding("disorder", "look" if late_s > lateness_s else "good", words)
    if delays := of.percentiles(of.delays_s(looked), (50, WINDOW_AT)):
        words = (
            f"median {delays[0]:.0f} s, 95 % within {delays[1]:.0f} s, as far as this sample shows"
        )
        window_s = USUAL.window_s
        if delays[1] > window_s:
            words += f": attribution.window of {window_s} s leaves some out; the proposal is longer"
        yield Finding("feedback after", "look" if delays[1] > window_s else "good", words)


def _ids(looked: Looked) -> Iterator[Finding]:
    distinct = of.distinct_ids(looked)
    if distinct is not None and distinct < LEAST_DISTINCT_IDS:
        words = f"one id has {1 / distinct:.0f} impressions: this is a list, not a search"
        yield Finding("ids", "wrong", words)
    elif distinct is not None:
        yield Finding(
            "ids", "good", f"{percent(distinct)} of the impressions have an id of their own"
        )


def _repeated(looked: Looked) -> Iterator[Finding]:
    lists, reactions = of.repeated(looked)
    if not looked.seen:
        return
    words = f"{lists:,} impressions and {reactions:,} pieces of feedback repeat an earlier one"
    words += "; repeated impressions count once, repeated feedback adds nothing" * bool(
        lists + reactions
    )
    yield Finding("duplicates", "good", words)


def _attributes(looked: Looked, config: Config) -> Iterator[Finding]:
    lists = sum(1 for _ in looked.impressions)
    for name, values in of.attribute_values(looked).items():
        shares = [percent(count / lists) for _, count in values.most_common(SHOWN_VALUES)]
        words = f"{len(values):,} values; the most frequent have {', '.join(shares)}"
        missing = 1 - values.total() / lists
        words += f"; {percent(missing)} have none" if missing > 0 else ""
        many = len(values) > config.segments.max_segments
        words += (
            f": too many for a grouping (segments.max_segments is {config.segments.max_segments})"
            * many
        )
        yield Finding(f"attribute {name}", "look" if many else "good", words)
