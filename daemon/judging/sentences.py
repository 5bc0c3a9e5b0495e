"""Changes in words. Pure: times are UTC, and the time of the reader's day is passed in."""

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Final, TypeAlias

from .ledger import MIXED, Onset
from .markers import Marker
from .story import ALL, Story

Tone: TypeAlias = str
LITTLE_JUDGED: Final = 0.6
"""Of lists of which less is judged, judged scores say little."""
LESS_JUDGED: Final = 0.9
"""Below this part of the share before, other items are shown than those that were judged."""
NARROW_MS: Final = 10 * 60_000
"""An onset whose interval is at most this long is said as one time."""
NEARLY_ALL: Final = 0.95
DAY_MS: Final = 86_400_000


def printable(text: str) -> str:
    """The text with control characters, which a terminal would act upon, as escapes."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def where(grouping: str, segments: Sequence[str]) -> str:
    """` of country DE`; nothing for the whole."""
    if (grouping, *segments) == ALL:
        return " everywhere"
    names = [printable(name) for name in segments]
    listed = " and ".join(filter(None, (", ".join(names[:-1]), names[-1])))
    return f" of {grouping} {listed}"


def score(story: Story) -> str:
    """`RR@10 of country DE`, or `Judged P@5 of country DE`."""
    grouping, _, metric = story.fall.series
    judged = "" if story.fall.graded is None else "Judged "
    return f"{judged}{metric}{where(grouping, story.segments)}"


def level(mean: float | None) -> str:
    """`0.19`, with a third digit below 0.1."""
    if mean is None:
        return "unknown"
    return f"{mean:.3f}" if abs(mean) < 0.1 else f"{mean:.2f}"


def clock(time_ms: float, now_ms: float) -> str:
    """`16:34`; with the date where it is of another day."""
    time, now = (datetime.fromtimestamp(each / 1000, UTC) for each in (time_ms, now_ms))
    if time.date() == now.date():
        return f"{time:%H:%M}"
    return f"{time:%-d %b %H:%M}"


def since(onset: Onset, now_ms: float) -> str:
    """`at 16:34`, `between 16:20 and 17:05` or `before 12:00`."""
    if onset.earliest is None:
        return f"before {clock(onset.latest, now_ms)}"
    if onset.width <= NARROW_MS:
        return f"at {clock(onset.likely, now_ms)}"
    return f"between {clock(onset.earliest, now_ms)} and {clock(onset.latest, now_ms)}"


def fell(story: Story, now_ms: float) -> str:
    """`RR@10 of country DE fell from 0.55 to 0.19 at 16:34`; `rose` where less is better."""
    before, now = story.own.before.mean, story.own.now.mean
    verb = "rose" if before is not None and now is not None and now > before else "fell"
    when = since(story.fall.onset, now_ms)
    return f"{score(story)} {verb} from {level(before)} to {level(now)} {when}"


def headline(story: Story, now_ms: float, marker: Marker | None = None) -> str:
    """The sentence of an open change, with the marker that is named beside it."""
    if story.fall.is_standing(round(now_ms)) and story.own.change_ratio is not None:
        more = "lower" if story.own.change_ratio < 0 else "higher"
        when = f"{datetime.fromtimestamp(story.fall.onset.likely / 1000, UTC):%-d %b}"
        ratio = f"{abs(story.own.change_ratio):.0%}".replace("%", " %")
        return f"{score(story)} is {ratio} {more} since {when}."
    named = "" if marker is None else f", {after(story.fall.onset, marker)}"
    return f"{fell(story, now_ms)}{named}, not recovered."


def after(onset: Onset, marker: Marker) -> str:
    """`4 min after "ranker v8"`: when a change began, never what caused it."""
    quoted = f'"{printable(marker.text)}"'
    if marker.at_ms > onset.likely:
        return f"at about the time of {quoted}"
    return f"{_duration(onset.likely - marker.at_ms)} after {quoted}"


def planned(story: Story, now_ms: float, marker: Marker) -> str:
    """`RR@10 is 8 % lower since 12:00, as planned ("diversity v2").`"""
    ratio, when = story.own.change_ratio, since(story.fall.onset, now_ms)
    quoted = f'as planned ("{printable(marker.text)}").'
    if ratio is None:
        return f"{fell(story, now_ms)}, {quoted}"
    more = "lower" if ratio < 0 else "higher"
    when = when.replace("at ", "since ", 1) if when.startswith("at ") else f"since {when}"
    return f"{score(story)} is {_percent(abs(ratio))} {more} {when}, {quoted}"


def recovery(story: Story, now_ms: float) -> str:
    """The sentence of a change that is over."""
    if story.fall.recovered_ms is None and story.fall.superseded is not None:
        return _superseded(story, now_ms)
    ended = story.fall.recovered_ms or now_ms
    lasted = _duration(ended - story.fall.onset.likely)
    return (
        f"{score(story)} recovered at {clock(ended, now_ms)} after "
        f"{lasted} at {level(story.own.now.mean)}; it was {level(story.own.before.mean)} before."
    )


def _superseded(story: Story, now_ms: float) -> str:
    """The sentence of a judged change that ended with its judgements."""
    graded, other = story.fall.graded, story.fall.superseded
    assert graded is not None and other is not None
    why = f"other judgements ({printable(other.judgements)}) are in force since"
    if other.judgements == MIXED:
        why = "lanes grade by different judgements since"
    elif other.judgements == graded.judgements:
        why = "judged scores began anew then"
    return (
        f"{fell(story, now_ms)}; ended at {clock(other.since_ms, now_ms)}: {why}, so whether it "
        "recovered is not known."
    )


def detail(story: Story) -> str:
    """Who carries it, what it looks like, and where to look; of a judged change, what makes it
    doubtful."""
    parts = []
    explanation = story.explanation
    if explanation is not None:
        share = "nearly all" if explanation.carried >= NEARLY_ALL else _percent(explanation.carried)
        carry = "It carries" if len(story.segments) == 1 else "They carry"
        parts.append(f"{carry} {share} of the fall of the whole.")
    if story.pattern is not None:
        parts.append(f"Looks like {story.pattern.name}: {story.pattern.words}.")
        parts.append(f"Look at: {story.pattern.look_at}.")
    parts.append(doubts(story))
    return " ".join(filter(None, parts))


def judged_alone(until_ms: float, now_ms: float) -> str:
    """That only judgements show a change, as far as is known."""
    return f"Clicks show no such fall so far; they are known up to {clock(until_ms, now_ms)}."


def doubts(story: Story) -> str:
    """That little of the lists is judged, or less than before; empty where nothing is to say."""
    before, now = story.judged_shares or (None, None)
    if now is None:
        return ""
    parts = []
    if now < LITTLE_JUDGED:
        only = f"Only {_percent(now)} of the first places are judged"
        parts.append(f"{only}, so judged scores say little of these lists.")
    if before is not None and now < LESS_JUDGED * before:
        parts.append(
            f"{_percent(before)} of the first places were judged before, {_percent(now)} are since:"
            " new items that nobody has judged look like this, too."
        )
    return " ".join(parts)


def good(smallest_drop: float | None, lane: str | None) -> str:
    """The sentence of a quiet site."""
    if smallest_drop is None or lane is None:
        return "No score is worse, as far as is known yet."
    than = {"hour": "before", "day": "in the last days", "weeks": "in the last weeks"}[lane]
    least = _percent(smallest_drop)
    return f"Search is as good as {than}. A fall of {least} would have been noticed."


def watching(begin_ms: float | None, now_ms: float) -> str:
    """The sentence before anything can be compared."""
    if begin_ms is None:
        return "Nothing has settled yet, so there is nothing to compare."
    return f"Watching since {clock(begin_ms, now_ms)}. Nothing to compare with yet."


def _percent(share: float) -> str:
    return f"{share:.0%}".replace("%", " %")


def _duration(length_ms: float) -> str:
    minutes = round(length_ms / 60_000)
    hours, minutes = divmod(minutes, 60)
    days, hours = divmod(hours, 24)
    parts = [f"{days} d"] * (days > 0) + [f"{hours} h"] * (hours > 0)
    return " ".join((parts + [f"{minutes} min"] * (minutes > 0 and not days)) or ["0 min"])
