"""The effect of an experiment day by day, and up to the end of each day. Pure."""

from collections.abc import Sequence

import msgspec

from ...errors import Damaged
from ...events.timestamps import timestamp_text
from ...experiments.by_day import (
    CAUTION,
    by_day,
    day_name,
    days_of,
    first_known,
    left_out_arms,
)
from ...experiments.exclusion import Stretch, excluded_of, joined, nothing_left, stretch
from ...experiments.specs import Spec
from ...experiments.tallies import DAY_MS, Tallies
from ...experiments.types import Excluded, OverTime
from ...exporter.experiment_days import with_days
from ...exporter.pane_reader import Reading
from .parameters import BadRequest
from .tracked import tracked

WHOLE_DAYS = (
    "must begin and end at midnight UTC: the daemon keeps whole days of an experiment. Recorded"
    " events can be left out to the millisecond: relevanced replay --experiment NAME --exclude"
)
USERS_UNKNOWN = (
    "whether the arms lost equal shares is not tested: users are not kept by day. Compare the"
    " impressions that each arm lost"
)


def over_time(reading: Reading, experiment: str, exclude: Sequence[str]) -> OverTime:
    """The effects of an experiment without the stretches `FROM/TO` of whole days. Raises
    BadRequest."""
    spec, lanes = tracked(reading, experiment)
    try:
        tallies = [with_days(lane, experiment) for lane in lanes]
    except Damaged as error:
        raise BadRequest(503, str(error)) from error
    stretches = joined(_whole_days(text) for text in exclude)
    excluded = _excluded_days(spec, tallies, stretches)
    rows = by_day(spec, tallies, reading.plan.metrics, excluded)
    known = first_known(spec, tallies)
    as_of_ms = reading.snapshot.as_of_ms
    finding = next(
        (one for one in reading.experiments.experiments if one.experiment == experiment), None
    )
    return OverTime(
        as_of=None if as_of_ms is None else timestamp_text(as_of_ms),
        experiment=experiment,
        control=spec.control if finding is None else finding.control,
        warnings=() if finding is None else finding.warnings,
        first_whole_day=None if known is None else day_name(known + DAY_MS),
        excluded=_left_out(spec, tallies, stretches, excluded) if stretches else None,
        caution=CAUTION,
        days=rows,
    )


def _whole_days(text: str) -> Stretch:
    try:
        from_ms, to_ms = stretch(text)
    except ValueError as error:
        raise BadRequest(400, f"exclude={error}") from error
    if from_ms % DAY_MS or to_ms % DAY_MS:
        raise BadRequest(400, f"exclude={text}: {WHOLE_DAYS}")
    return from_ms, to_ms


def _excluded_days(
    spec: Spec, tallies: Sequence[Tallies], stretches: Sequence[Stretch]
) -> list[int]:
    """The starts in ms of the days that are in the stretches. Raises BadRequest where what these
    added is not known, or nothing would be left."""
    days, known = days_of(spec, tallies), first_known(spec, tallies)
    excluded = [day for day in days if any(start <= day < end for start, end in stretches)]
    if known is not None and any(start <= known for start, _ in stretches):
        raise BadRequest(
            400,
            f"exclude: must begin on {day_name(known + DAY_MS)} or later: of earlier days only"
            " the sum is known",
        )
    if excluded and excluded == days:
        lost = left_out_arms(spec, tallies, excluded)
        impressions = sum(arm.impressions for arm in lost.values())
        raise BadRequest(400, nothing_left(spec.name, stretches, impressions))
    return excluded


def _left_out(
    spec: Spec, tallies: Sequence[Tallies], stretches: Sequence[Stretch], days: Sequence[int]
) -> Excluded:
    found = excluded_of(spec, stretches, left_out_arms(spec, tallies, days), None)
    return msgspec.structs.replace(found, warning=USERS_UNKNOWN if found.impressions else "")
