"""Compares what was seen of an installation with what its scenario must raise. Pure."""

import re
from collections import Counter
from collections.abc import Sequence

from tests.trial.expected import Alert, Expected
from tests.trial.sighting import Identity, Sighting, Step

MALFORMED = re.compile(r"<no value>|%!|\bNaN\b|[+-]Inf|<error|\( *\)|  |\bmap\[|: *\.|\bunknown\b")
"""What a template leaves where a query of its text found nothing."""


def faults(seen: Sequence[Sighting], expected: Expected, broken_s: float) -> list[str]:
    """What is wrong, a sentence each: what is missing, late, superfluous or misworded.

    `seen` are the sightings of one installation in order of time, from its start to the end.
    """
    reaching = _reaching(seen)
    fired = [each for each in seen if each.step is Step.FIRING and each.identity in reaching]
    found = [fault for alert in expected.alerts for fault in _missing(alert, fired, broken_s)]
    counted = {each.identity: each for each in fired}
    for each in counted.values():
        if not any(re.fullmatch(alert.name, each.name) for alert in expected.alerts):
            found.append(f"unexpected: {_timed(each, broken_s)}")
    most = len(expected.alerts) if expected.most is None else expected.most
    if len(counted) > most:
        listed = "".join(f"\n      {_timed(each, broken_s)}" for each in counted.values())
        found.append(f"{len(counted)} alerts, at most {most} are right:{listed}")
    found += _doubled(list(counted.values()))
    for each in fired:
        if MALFORMED.search(each.text):
            found.append(f"malformed text: {each.told()}")
    return found + _told_again(seen) + _ended_early(seen, expected, broken_s)


def late_ends(seen: Sequence[Sighting], expected: Expected, repaired_s: float) -> list[str]:
    """Alerts that fire for longer than `ends_minutes` after the repair, a sentence each."""
    if not expected.ends_minutes:
        return []
    ends = ends_s(seen, repaired_s)
    if ends is None:
        return [f"does not end, must within {expected.ends_minutes:g} minutes"]
    if ends > expected.ends_minutes * 60:
        return [f"ends {ends / 60:.1f} minutes after the repair, not {expected.ends_minutes:g}"]
    return []


def ends_s(seen: Sequence[Sighting], repaired_s: float) -> float | None:
    """Seconds from the repair until the last alert that reached somebody is over; None while one
    fires, and where there is no repair."""
    reaching = _reaching(seen)
    state = {
        each.identity: each
        for each in seen
        if each.identity in reaching and each.step in (Step.FIRING, Step.RESOLVED)
    }
    if not repaired_s or any(each.step is Step.FIRING for each in state.values()):
        return None
    return max((max(0.0, each.at_s - repaired_s) for each in state.values()), default=0.0)


def first_told(seen: Sequence[Sighting], expected: Expected, broken_s: float) -> Sighting | None:
    """The first alert of those that must come that reached somebody."""
    reaching = _reaching(seen)
    for each in seen:
        is_meant = any(
            re.fullmatch(alert.name, each.name) and _labelled(alert, each)
            for alert in expected.alerts
        )
        if is_meant and each.step is Step.FIRING and each.identity in reaching:
            return each
    return None


def _told_again(seen: Sequence[Sighting]) -> list[str]:
    """An alert of which somebody is told more than once."""
    told = Counter((each.identity, each.where) for each in seen if each.step is Step.NOTIFIED)
    names = {each.identity: each.name for each in seen}
    return [f"{names[one]} is notified {n} times" for (one, _), n in told.items() if n > 1]


def _doubled(counted: Sequence[Sighting]) -> list[str]:
    """The segments on which more than one alert comes."""
    segments: dict[str, list[Sighting]] = {}
    for each in counted:
        if "segment" in each.labels:
            segment = f"{each.labels['grouping']} {each.labels['segment']}"
            segments.setdefault(segment, []).append(each)
    return [
        f"{len(alerts)} alerts on {segment}:"
        f" {', '.join(each.name + ' ' + each.labels.get('metric', '') for each in alerts)}"
        for segment, alerts in segments.items()
        if len(alerts) > 1
    ]


def _reaching(seen: Sequence[Sighting]) -> set[Identity]:
    """The alerts that fire and are not held back: somebody hears of them, now or soon."""
    held_back = {each.identity for each in seen if each.step is Step.HELD_BACK}
    notified = {each.identity for each in seen if each.step is Step.NOTIFIED}
    fired = {each.identity for each in seen if each.step is Step.FIRING}
    return (fired - held_back) | notified


def _missing(alert: Alert, fired: Sequence[Sighting], broken_s: float) -> list[str]:
    named = [
        each for each in fired if re.fullmatch(alert.name, each.name) and _labelled(alert, each)
    ]
    what = f"{alert.name} {dict(alert.labels) or ''}".rstrip()
    if not named:
        return [f"missing: {what}, within {alert.within_minutes:g} minutes"]
    first = named[0]
    found = []
    minutes = (first.at_s - broken_s) / 60
    if minutes > alert.within_minutes:
        found.append(
            f"late: {first.name} after {minutes:.1f} minutes, not {alert.within_minutes:g}"
        )
    for fragment in alert.says:
        if not any(re.search(fragment, each.text) for each in named):
            found.append(f"does not say {fragment!r}: {first.told()}")
    return found


def _labelled(alert: Alert, seen: Sighting) -> bool:
    severity = {"page": "pages", "ticket": "tickets"}.get(seen.labels.get("severity", ""), "")
    return bool(re.fullmatch(alert.where, severity)) and all(
        re.fullmatch(value, seen.labels.get(name, "")) for name, value in alert.labels.items()
    )


def _ended_early(seen: Sequence[Sighting], expected: Expected, broken_s: float) -> list[str]:
    stays = re.compile(expected.stays or r"(?!)")
    return [
        f"withdrawn: {_timed(each, broken_s)}"
        for each in seen
        if each.step is Step.WITHDRAWN and each.at_s > broken_s and stays.fullmatch(each.name)
    ]


def _timed(seen: Sighting, broken_s: float) -> str:
    return f"{(seen.at_s - broken_s) / 60:+.1f} min {seen.told()}"
