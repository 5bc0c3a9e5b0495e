"""Compares what was seen of an installation with what its scenario must raise. Pure."""

import re
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
    return found + _resolved(seen, expected, broken_s)


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


def _resolved(seen: Sequence[Sighting], expected: Expected, broken_s: float) -> list[str]:
    stays = re.compile(expected.stays or r"(?!)")
    return [
        f"resolved: {_timed(each, broken_s)}"
        for each in seen
        if each.step is Step.RESOLVED and each.at_s > broken_s and stays.fullmatch(each.name)
    ]


def _timed(seen: Sighting, broken_s: float) -> str:
    return f"{(seen.at_s - broken_s) / 60:+.1f} min {seen.told()}"
