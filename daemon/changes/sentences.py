"""Changes in words. Pure: times are UTC, and the time of the reader's day is passed in."""

from collections.abc import Sequence
from datetime import UTC, datetime
from math import ceil
from typing import Final, TypeAlias

from .ledger import MIXED, FallOnset
from .markers import Marker
from .noticeable import Noticed
from .settings import WHOLE
from .silence import FeedbackGap, Silence
from .story import Story
from .traffic_changes import TrafficChange

Tone: TypeAlias = str
MISSING: Final = "relevanced judgements missing"
"""The way out where too little is judged."""
LITTLE_JUDGED: Final = 0.6
"""Of lists of which less is judged, judged scores say little."""
LESS_JUDGED: Final = 0.9
"""Below this part of the share before, other items are shown than those that were judged."""
MOST_PARTITIONS: Final = 3
"""More are counted."""
NARROW_MS: Final = 10 * 60_000
"""An onset whose interval is at most this long is said as one time."""
DAY_MS: Final = 86_400_000
_SHARES: Final = {"feedback_share": "got feedback", "zero_results_share": "returned no results"}


def printable(text: str) -> str:
    """The text with control characters, which a terminal would act upon, as escapes."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def where(grouping: str, segments: Sequence[str]) -> str:
    """` of country DE`, or ` everywhere`."""
    if (grouping, *segments) == WHOLE:
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


MOST_DIGITS: Final = 5


def levels(before: float | None, now: float | None) -> tuple[str, str]:
    """Both levels, with as many digits as it takes to tell them apart."""
    texts = level(before), level(now)
    if before is None or now is None:
        return texts
    for digits in range(3, MOST_DIGITS + 1):
        if texts[0] != texts[1]:
            break
        texts = f"{before:.{digits}f}", f"{now:.{digits}f}"
    return texts


def clock(time_ms: float, now_ms: float) -> str:
    """`16:34`; with the date where it is of another day."""
    time, now = (datetime.fromtimestamp(each / 1000, UTC) for each in (time_ms, now_ms))
    if time.date() == now.date():
        return f"{time:%H:%M}"
    return f"{time:%-d %b %H:%M}"


def since(onset: FallOnset, now_ms: float) -> str:
    """`at 16:34`, `between 16:20 and 17:05` or `before 12:00`."""
    if onset.earliest is None:
        return f"before {clock(onset.latest, now_ms)}"
    if onset.width <= NARROW_MS:
        return f"at {clock(onset.likely, now_ms)}"
    return f"between {clock(onset.earliest, now_ms)} and {clock(onset.latest, now_ms)}"


def fell(story: Story, now_ms: float) -> str:
    """`RR@10 of country DE fell from 0.55 to 0.19 at 16:34`; `rose` where less is better."""
    before, now = story.own.before.mean, story.own.now.mean
    if not story.own.is_known:
        return f"{score(story)} got worse {since(story.fall.onset, now_ms)}"
    verb = "rose" if before is not None and now is not None and now > before else "fell"
    when, (from_text, to_text) = since(story.fall.onset, now_ms), levels(before, now)
    return f"{score(story)} {verb} from {from_text} to {to_text} {when}"


def headline(story: Story, now_ms: float, marker: Marker | None = None) -> str:
    """The sentence of an open change, with the marker that is named beside it; or of what a judged
    score lost by one reading only."""
    if story.is_undecided:
        return cannot_tell(story, now_ms)
    if story.fall.is_standing(round(now_ms)) and story.own.change_ratio is not None:
        more = "lower" if story.own.change_ratio < 0 else "higher"
        when = f"{datetime.fromtimestamp(story.fall.onset.likely / 1000, UTC):%-d %b}"
        ratio = _percent(abs(story.own.change_ratio))
        return f"{score(story)} is {ratio} {more} since {when}."
    if story.z is not None and story.z >= 0:
        return f"{score(story)} is {level(story.own.now.mean)} again; other scores are still low."
    if not story.own.is_known:
        return f"{fell(story, now_ms)}; it has no series now, so its level is not known."
    named = "" if marker is None else f", {after(story.fall.onset, marker)}"
    return f"{fell(story, now_ms)}{named}, {_so_far(story, now_ms)}."


def cannot_tell(story: Story, now_ms: float) -> str:
    """That a judged score fell only if the items without a judgement are irrelevant, and the way
    out."""
    before, now = story.own.judged_shares
    when = f"cannot tell whether it fell {since(story.fall.onset, now_ms)}"
    shares = f"{_unjudged(now)} of the places are not judged, {_unjudged(before)} before"
    of_zero = levels(story.own.before.mean, story.own.now.mean)
    of_best = levels(*story.own.best_case)
    return (
        f"{score(story)}: {when}: {shares}. With these items as irrelevant it is {of_zero[1]} after"
        f" {of_zero[0]}, with them as good as judged ones {of_best[1]} after {of_best[0]}."
        f" {MISSING} lists what to judge first."
    )


def _unjudged(share: float | None) -> str:
    return "unknown" if share is None else f"{1 - share:.1%}".replace(".0%", "%").replace("%", " %")


def _so_far(story: Story, now_ms: float) -> str:
    """`not recovered`, or how far it has."""
    better_ms, live = story.fall.better_ms, story.live
    if live is not None:
        back = f"live it is back at {level(live.mean)} since {clock(live.since_ms, now_ms)}"
        return f"not recovered by {clock(live.settled_ms, now_ms)}; {back}"
    if better_ms is not None:
        return f"better since {clock(better_ms, now_ms)}, not as good as before yet"
    return "not recovered"


def after(onset: FallOnset, marker: Marker) -> str:
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


def acknowledged(marker: Marker, now_ms: float) -> str:
    """`Acknowledged by bob until 14:30: rolled back to v7, waiting.`"""
    by = "" if marker.by is None else f" by {printable(marker.by)}"
    said = printable(marker.text).rstrip()
    end = "" if said[-1:] in ".!?…" else "."
    return f"Acknowledged{by} until {clock(marker.until_ms or 0, now_ms)}: {said}{end}"


def recovery(story: Story, now_ms: float) -> str:
    """The sentence of a change that is over."""
    if story.fall.recovered_ms is None:
        return _unknown_end(story, now_ms)
    ended = story.fall.recovered_ms
    over = f"{score(story)} recovered at {clock(ended, now_ms)}"
    if not story.own.is_known:
        return f"{over}."
    lasted = _duration(ended - story.fall.onset.likely)
    before, low = levels(story.own.before.mean, story.own.now.mean)
    return f"{over}: for {lasted} it was {low}, {before} before."


def _unknown_end(story: Story, now_ms: float) -> str:
    """The sentence of a change that ended with what could be compared."""
    ended = clock(story.fall.ended_ms or now_ms, now_ms)
    return (
        f"{fell(story, now_ms)}; ended at {ended}: {_why_unknown(story)}, so whether it recovered "
        "is not known."
    )


def _why_unknown(story: Story) -> str:
    graded, other = story.fall.graded, story.fall.superseded
    if other is None:
        return "nothing comparable is scored since"
    if other.judgements == MIXED:
        return "lanes grade by different judgements since"
    if graded is not None and other.judgements == graded.judgements:
        return "judged scores began anew then"
    return f"other judgements ({printable(other.judgements)}) are in force since"


def detail(story: Story) -> str:
    """Who carries it, what it looks like, and where to look; of a judged change, what makes it
    doubtful."""
    parts = []
    if story.share:
        carry = "It carries" if len(story.segments) == 1 else "They carry"
        parts.append(f"{carry} {story.share} of the fall of the whole.")
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
    before, now = story.own.judged_shares
    if now is None or story.is_undecided:
        return ""
    parts = []
    if now < LITTLE_JUDGED:
        only = f"Only {_percent(now)} of the first places are judged"
        parts.append(f"{only}, so judged scores say little of these lists.")
    if before is not None and now < LESS_JUDGED * before:
        from_text, to_text = levels(*story.own.best_case)
        parts.append(
            f"{_percent(before)} of the first places were judged before, {_percent(now)} are since:"
            f" were the others as good as judged ones, it would be {to_text} after {from_text}."
        )
    return " ".join(parts)


def good(falls: Sequence[Noticed], metric: str, until_ms: float, now_ms: float) -> str:
    """The sentence of a quiet site, of what had settled by then: how small a fall of the metric
    would have been noticed, and when it had to begin."""
    than = {"hour": "before", "day": "in the last days", "weeks": "in the last weeks"}
    sizes = [
        f"by {ceil(fall.drop * 100)} % that began before {clock(fall.begun_ms, now_ms)}"
        for fall in falls
    ]
    least = sizes[0] if len(sizes) == 1 else ", or ".join(sizes) + ","
    return (
        f"Up to {clock(until_ms, now_ms)} search was as good as {than[falls[0].lane]}. "
        f"A fall of {metric} {least} would have been noticed."
    )


def silent(found: Silence, now_ms: float) -> str:
    """`No searches in partition 3 since 14:05; up to 3,100 an hour are usual.`"""
    if not found.usual_per_hour:
        return (
            f"No {found.stream} has joined any search since {clock(found.since_ms, now_ms)}. "
            "Scores say nothing; relevanced doctor looks for the cause."
        )
    usual = float(f"{found.usual_per_hour:.2g}")
    rate = f"{usual:,.0f}" if usual >= 1 else f"{usual:.1f}"
    doubt = "" if found.stream == "searches" else " Scores say nothing since then."
    since_text = clock(found.since_ms, now_ms)
    where = partitions_text(found.partitions)
    refused = f" {found.rejected:,} records were rejected since." if found.rejected else ""
    of_hour = f"up to {rate} an hour are usual"
    return f"No {found.stream}{where} since {since_text}; {of_hour}.{refused}{doubt}"


def no_feedback(gap: FeedbackGap, now_ms: float) -> str:
    """`No feedback came from 04:23 to 04:49: scores say nothing of that time.`"""
    begin, end = clock(gap.begin_ms, now_ms), clock(gap.end_ms, now_ms)
    return f"No feedback came from {begin} to {end}: scores say nothing of that time."


def partitions_text(partitions: Sequence[int]) -> str:
    """` in partitions 1, 3`; empty where it is all of them."""
    if not partitions:
        return ""
    shown = ", ".join(map(str, partitions[:MOST_PARTITIONS]))
    more = len(partitions) - MOST_PARTITIONS
    several = "s" if len(partitions) > 1 else ""
    return f" in partition{several} {shown}" + (f" and {more} more" if more > 0 else "")


def watching(begin_ms: float | None, now_ms: float) -> str:
    """The sentence before anything can be compared."""
    if begin_ms is None:
        return "Nothing has settled yet, so there is nothing to compare."
    return f"Watching since {clock(begin_ms, now_ms)}. Nothing to compare with yet."


def traffic(change: TrafficChange) -> str:
    """`Of the searches of country DE 20 % got feedback in the last settled hour; 40 % is usual.`"""
    grouping, segment = change.segment
    of = where(grouping, [segment])
    if change.metric not in _SHARES:
        counts = f"{change.now:,.0f} in the last settled hour; {change.before:,.0f} is usual"
        return f"Searches{of} have almost stopped: {counts}."
    searches = "all searches" if change.segment == WHOLE else f"the searches{of}"
    now, before = (_percent(share, _digits(share)) for share in (change.now, change.before))
    what = f"{_SHARES[change.metric]} in the last settled hour"
    return f"Of {searches} {now} {what}; {before} is usual."


def _digits(share: float) -> int:
    return 0 if share >= 0.1 or not share else 1 if share >= 0.01 else 2


def _percent(share: float, digits: int = 0) -> str:
    return f"{share:.{digits}%}".replace("%", " %")


def _duration(length_ms: float) -> str:
    minutes = round(length_ms / 60_000)
    hours, minutes = divmod(minutes, 60)
    days, hours = divmod(hours, 24)
    parts = [f"{days} d"] * (days > 0) + [f"{hours} h"] * (hours > 0)
    return " ".join((parts + [f"{minutes} min"] * (minutes > 0 and not days)) or ["0 min"])
