"""A lane counts few variants of an experiment, whatever names come first."""

from collections.abc import Sequence
from dataclasses import replace

import pytest

from relevanced.daemon.experiments import Spec, findings
from relevanced.daemon.lane import Lane
from tests.builders import BASE_MS, SETTLE_MS, lane_of, passing, settled, shown
from tests.daemon.storage.test_experiments import plan_of, spec

STRAY: tuple[str, ...] = tuple(f"control-{number}" for number in range(12))
HALVES = (("control", 1.0), ("treatment", 1.0))


def lane_with(names: Sequence[str], declared: Spec | None) -> Lane:
    """A lane that settled a pane for each of these names of variants, one after the other."""
    lane = lane_of(plan=plan_of(most=8) if declared is None else plan_of(declared))
    for number, variant in enumerate(names):
        of, at_ms = f"q{number}", number * BASE_MS
        settled(lane, shown(at_ms, of=of, user_id=of, experiments={"draft": variant}))
    settled(lane, passing(len(names) * BASE_MS + 2 * SETTLE_MS))
    return lane


@pytest.mark.parametrize(
    ("more", "kept"),
    [
        ({"weights": HALVES}, ["control", "treatment"]),
        ({"weights": HALVES[:1], "ramp": ((BASE_MS, HALVES),)}, ["control", "treatment"]),
        ({}, ["control"]),
        (None, ["control"]),
    ],
    ids=["weights", "ramp", "control alone", "undeclared"],
)
def test_room_is_kept_for_planned_variants_and_the_control(
    more: dict[str, object] | None, kept: list[str]
) -> None:
    declared = None if more is None else replace(spec("draft"), **more)  # type: ignore[arg-type]
    lane = lane_with([*STRAY, "control", "treatment"], declared)
    arms = lane.experiments.by_name["draft"].arms
    assert sorted(arms) == sorted([*kept, *STRAY[: 10 - len(kept)]])
    left_out = len(STRAY) + 2 - 10
    assert lane.counts["experiment_overflow"] == {"variant": left_out}
    tracking = lane.plan.tracking
    (found,) = findings(
        [lane.experiments.by_name], tracking, lane.plan.metrics, None, None
    ).experiments
    (said,) = [one for one in found.warnings if "no further name" in one]
    assert "a lane counts 10 variants" in said
    assert not any("has no traffic" in one for one in found.warnings)


def test_what_is_interleaved_is_always_counted() -> None:
    planned = (("control", 1.0), *((str(one), 1.0) for one in range(9)))
    for declared in (replace(spec("draft"), weights=planned), None):
        arms = lane_with([*STRAY, "interleaved"], declared).experiments.by_name["draft"].arms
        assert "interleaved" in arms


def test_ten_planned_variants_are_all_there_are() -> None:
    planned = ("control", *map(str, range(9)))
    lane = lane_with(planned, replace(spec("draft"), weights=tuple((one, 1.0) for one in planned)))
    (found,) = findings(
        [lane.experiments.by_name], lane.plan.tracking, lane.plan.metrics, None, None
    ).experiments
    assert not any("no further name" in one for one in found.warnings)


def test_weights_that_are_set_later_make_room() -> None:
    planned = replace(spec("draft"), weights=HALVES)
    assert planned.has_room("treatment", STRAY[:10]) and planned.digest == spec("draft").digest
    assert not planned.has_room("another", STRAY[:10])
