"""The integers of experiments by name, so that stored and proven ones can be compared. Pure."""

from collections.abc import Iterator, Mapping, Sequence

from relevanced.metrics import Hashes, Integers

from ...experiments import Arm, Spec, Tallies, day_name
from ...plan import METRIC_COLUMNS

CREDIT_COLUMNS = ("credits", "sum of credits", "squares of credits")


def integers_of(name: str, tallies: Tallies, spec: Spec) -> dict[str, int]:
    """What is counted → the count, of every count of an experiment that is not 0."""
    of_metrics = [f"{metric} {column}" for metric in spec.metrics for column in METRIC_COLUMNS]
    columns = ["impressions", *of_metrics]
    panes = {"first": tallies.began_ms, "last": tallies.last_ms}
    found = {f"{name}, {which} pane in ms": at_ms for which, at_ms in panes.items() if at_ms}
    for variant, arm in tallies.arms.items():
        found |= _of_arm(f"{name}, {variant}", arm, columns)
    for day_ms, arms in tallies.ends.items():
        for variant, arm in arms.items():
            found |= _of_arm(f"{name} at the end of {day_name(day_ms)}, {variant}", arm, columns)
    return found


def _of_arm(where: str, arm: Arm, columns: Sequence[str]) -> dict[str, int]:
    found = dict(_cells(where, arm.tallies, columns))
    found |= _cells(where, arm.credits, CREDIT_COLUMNS)
    for segment, part in arm.strata.items():
        found |= _cells(f"{where}, segment {segment}", part, columns)
    if arm.without_unit:
        found[f"{where}, impressions without a unit"] = arm.without_unit
    return found


def _cells(where: str, table: Integers, columns: Sequence[str]) -> Iterator[tuple[str, int]]:
    for bucket, column in zip(*(axis.tolist() for axis in table.nonzero()), strict=True):
        yield f"{where}, bucket {bucket}, {columns[column]}", int(table[bucket, column])


def users_apart(
    name: str, stored: Tallies | None, proven: Tallies | None
) -> tuple[dict[str, int], dict[str, int]]:
    """What is counted → how many hashes of users only the stored, and only the proven arms have."""
    of_stored, of_proven = _users(name, stored), _users(name, proven)
    counts = dict[str, int](), dict[str, int]()
    for where in of_stored.keys() | of_proven.keys():
        ours, theirs = of_stored.get(where, set()), of_proven.get(where, set())
        label = f"{where}, users that the other lacks"
        counts[0][label], counts[1][label] = len(ours - theirs), len(theirs - ours)
    return counts


def _users(name: str, tallies: Tallies | None) -> Mapping[str, set[int]]:
    arms = {} if tallies is None else tallies.arms
    return {f"{name}, {variant}": _hashes(arm.users) for variant, arm in arms.items()}


def _hashes(users: Hashes) -> set[int]:
    return set(users.tolist())
