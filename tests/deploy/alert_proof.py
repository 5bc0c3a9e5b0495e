"""When the exporter calls simulated scores worse than in earlier weeks or days, and how long an
alert on that fires. Pure."""

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from relevanced.daemon.changes import Called, MadeOf, WeekSides
from tests.deploy.alert_screen import KEPT, WEEKS, conditions, verdicts
from tests.deploy.alert_traffic import PANE_S


def keep_firing(firing: NDArray[np.bool_], steps: int) -> NDArray[np.bool_]:
    """`keep_firing_for`: where an alert fires or has fired in the last `steps` steps."""
    out = firing.copy()
    for step in range(1, steps + 1):
        out[:, step:] |= firing[:, :-step]
    return out


def first_firing_hours(firing: NDArray[np.bool_], from_hour: int) -> NDArray[np.float64]:
    """Hours from the drop until an alert fires, (trials,); infinite where none does."""
    after = firing[:, from_hour * 3600 // PANE_S :]
    hours = after.argmax(axis=1) * PANE_S / 3600
    return np.where(after.any(axis=1), hours, np.inf)


def firing(
    gauges: Mapping[str, WeekSides], made_of: Mapping[str, MadeOf] = WEEKS
) -> NDArray[np.bool_]:
    """Whether an alert fires, (trials, instants), over a whole simulation."""
    return keep_firing(called(gauges, made_of).any, KEPT)


def called(gauges: Mapping[str, WeekSides], made_of: Mapping[str, MadeOf] = WEEKS) -> Called:
    """What the lanes `weeks` and `day` call at each instant, (trials, instants)."""
    return verdicts(conditions(gauges, made_of))
