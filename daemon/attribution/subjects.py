"""What is kept of a new impression beside its state: units, experiment arms, its query. Pure."""

from collections.abc import Iterable, Iterator, Mapping

import numpy as np

from ..events.types import Decoded, Impression
from ..lane.lane import Lane
from ..lane.searches import Searches, searches_of
from ..lane.subjects import Subjects, units_of
from ..queries.plan import USER_ID


def subject_of(
    lane: Lane, event: Impression, attributes: Mapping[str, str | None]
) -> Subjects | None:
    """The units and experiment arms of the impression, which has these attributes; None without
    experiments."""
    tracking = lane.plan.tracking
    if tracking is None:
        return None
    assignment_id = lane.assignments.id_of(tracking.assignment(event.experiments))
    units = units_of(tracking, event.impression_id, event.user_id, attributes)
    return lane.assignments.subjects_of([assignment_id], [[unit] for unit in units])


def queries_of(events: Iterable[Decoded]) -> Iterator[str | None]:
    """What the impressions among events searched for."""
    return (event.query for event in events if isinstance(event, Impression))


def search_of(lane: Lane, event: Impression) -> Searches | None:
    """What the impression searched for, and who; None where it is not kept."""
    plan, keys = lane.plan.searches, lane.query_keys
    if plan is None or keys is None:
        return None
    user = event.user_id if plan.user == USER_ID else event.attributes.get(plan.user)
    return searches_of(keys, plan, [event.query], [user], np.array([event.time_ms]))
