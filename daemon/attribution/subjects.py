"""What is kept of a new impression beside its state: units, experiment arms, its query. Pure."""

import numpy as np

from ..events.types import Impression
from ..lane.lane import Lane
from ..lane.searches import Searches
from ..lane.subjects import Subjects, units_of
from ..queries.plan import USER_ID


def subject_of(lane: Lane, event: Impression) -> Subjects | None:
    """The units and experiment arms of the impression; None without experiments."""
    tracking = lane.plan.tracking
    if tracking is None:
        return None
    assignment_id = lane.assignments.id_of(tracking.assignment(event.experiments))
    units = units_of(tracking, event.impression_id, event.user_id, event.attributes)
    return lane.assignments.subjects_of([assignment_id], [[unit] for unit in units])


def search_of(lane: Lane, event: Impression) -> Searches | None:
    """What the impression searched for, and who; None where it is not kept."""
    queries = lane.queries
    if queries is None:
        return None
    plan = queries.plan
    user = event.user_id if plan.user == USER_ID else event.attributes.get(plan.user)
    return queries.keys.searches_of(plan, [event.query], [user], np.array([event.time_ms]))
