"""The incidents of a reading: each fault once, with what was planned told apart. Pure."""

from dataclasses import dataclass
from typing import TypeAlias

from ...changes import Incident, Marker, incidents, plan_of
from ...exporter import Detection, Reading

Marks: TypeAlias = tuple[Marker, ...]


@dataclass(frozen=True)
class Incidents:
    """Each incident once, by feedback and by judgements."""

    open: tuple[Incident, ...]
    """The clearest first."""
    closed: tuple[Incident, ...]
    """The latest first."""
    standing: tuple[Incident, ...]


def incidents_of(reading: Reading) -> Incidents:
    """All incidents, as of the last looks."""
    by_feedback = reading.clicks.changes
    judged = Detection() if reading.judged is None else reading.judged.changes
    as_of_ms = reading.snapshot.as_of_ms or 0
    together = incidents(
        (*by_feedback.open, *by_feedback.closed),
        (*judged.open, *judged.closed),
        reading.plan.timing.attribution_ms,
    )
    found = [
        each for incident in together for each in _by_plan(incident, reading.markers, as_of_ms)
    ]
    open_now = sorted((each for each in found if each.is_open), key=lambda each: each.story.z or 0)
    closed = [each for each in found if not each.is_open]
    return Incidents(
        tuple(each for each in open_now if not each.story.fall.is_standing(as_of_ms)),
        tuple(sorted(closed, key=lambda each: -(each.story.fall.ended_ms or 0.0))),
        tuple(each for each in open_now if each.story.fall.is_standing(as_of_ms)),
    )


def _by_plan(incident: Incident, markers: Marks, as_of_ms: int) -> tuple[Incident, ...]:
    """The incident, or both of its changes where a plan is of one of them only: what is planned
    must not hide what is not."""
    both = [story for story in (incident.story, incident.beside) if story is not None]
    planned = {plan_of(story, markers, as_of_ms) is not None for story in both}
    if len(planned) == 1:
        return (incident,)
    return tuple(Incident(story, None, story.identity) for story in both)


def all_open(reading: Reading) -> tuple[Incident, ...]:
    """The changes that are open, standing ones last."""
    found = incidents_of(reading)
    return (*found.open, *found.standing)
