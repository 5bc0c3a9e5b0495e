"""What was read one by one, beside what was read at once. Pure."""

from collections import defaultdict
from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from ..events import plain
from ..events.plain import PlainEvents
from ..events.types import Event, PlainFeedback, Skipped
from .outcomes import MappedImpression, Outcome


def with_alone(
    events: PlainEvents, outcomes: Mapping[int, Sequence[Outcome]], starts: NDArray[np.int64]
) -> PlainEvents:
    """The events and what was read one by one."""
    shown, reactions = (
        defaultdict[plain.Labels, list[tuple[int, MappedImpression]]](list),
        list[tuple[int, PlainFeedback]](),
    )
    others = dict[int, Event]()
    for n, several in outcomes.items():
        for index, one in enumerate(several, int(starts[n])):
            if isinstance(one, MappedImpression):
                shown[one.labels].append((index, one))
            elif isinstance(one, PlainFeedback):
                reactions.append((index, one))
            elif not isinstance(one, Skipped):
                others[index] = one
    events.others = others
    events.impressions = [*events.impressions, *map(_shown, shown.values())]
    if reactions:
        events.feedback = [*events.feedback, _reactions(reactions)]
    return events


def _shown(found: Sequence[tuple[int, MappedImpression]]) -> plain.Impressions:
    return plain.Impressions(
        [index for index, _ in found],
        [one.impression_id for _, one in found],
        [one.items for _, one in found],
        [one.time_ms for _, one in found],
        [one.user_id for _, one in found],
        [one.values for _, one in found],
        found[0][1].labels,
        queries=[one.query for _, one in found],
    )


def _reactions(found: Sequence[tuple[int, PlainFeedback]]) -> plain.Feedback:
    return plain.Feedback(
        [index for index, _ in found],
        [one.impression_id for _, one in found],
        [one.timestamp for _, one in found],
        [one.kind for _, one in found],
        [str(one.item) for _, one in found],
        [one.rank for _, one in found],
    )
