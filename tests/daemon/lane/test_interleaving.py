"""Interleaved lists: one has a winner where it names the team of the control and another one."""

import pytest

from relevanced.daemon.experiments import Finding, findings
from tests.builders import BASE_MS, SETTLE_MS, clicked, lane_of, passing, settled, shown
from tests.daemon.storage.test_experiments import plan_of, spec

Teams = tuple[str | None, ...]


def found_of(*lists: tuple[Teams, str], declared: bool, **more: str) -> Finding:
    """The finding of interleaved lists of the items a and b: the teams of each, and the item that
    is clicked."""
    plan = plan_of(spec("draft")) if declared else plan_of(most=8)
    lane = lane_of(plan=plan)
    for number, (teams, item) in enumerate(lists):
        user, of = f"u{number}", f"q{number}"
        search = shown(number, "a b", of=of, user_id=user, teams=teams, experiments=DEALT)
        settled(lane, search, clicked(number, item, of=of))
    for of, variant in more.items():
        settled(lane, shown(1, of=of, user_id=of, experiments={"draft": variant}))
    settled(lane, passing(BASE_MS + 2 * SETTLE_MS))
    tallies = [lane.experiments.by_name]
    (found,) = findings(tallies, plan.tracking, plan.metrics, None, None).experiments
    return found


DEALT = {"draft": "interleaved"}


def fair(one: str, other: str) -> list[tuple[Teams, str]]:
    """Each side first as often as the other, and clicked as often."""
    return [(teams, item) for teams in ((one, other), (other, one)) for item in "ab"]


def outcomes(found: Finding) -> tuple[int, int, int] | None:
    lists = found.interleaving
    return None if lists is None else (lists.wins, lists.ties, lists.losses)


@pytest.mark.parametrize("declared", [False, True])
def test_lists_without_the_team_of_the_control_have_no_winner_and_that_is_said(
    declared: bool,
) -> None:
    found = found_of(*fair("bm25", "vector"), declared=declared)
    assert found.without_control and outcomes(found) is None
    warning = found.warnings[0]
    assert warning.startswith("none of the 4 interleaved lists names both a team called control")
    assert "name the team of the control as `control` under [experiments.draft]" in warning


@pytest.mark.parametrize(
    "one, other, declared",
    [
        ("control", "v2", True),
        ("control", "v2", False),
        ("A", "baseline", False),
        ("A", "B", False),
    ],
)
def test_a_fair_interleaving_is_won_as_often_as_lost(one: str, other: str, declared: bool) -> None:
    found = found_of(*fair(one, other), declared=declared)
    assert outcomes(found) == (2, 0, 2) and not found.without_control
    assert not any("interleaved" in warning for warning in found.warnings)


def test_a_list_of_one_team_compares_nothing() -> None:
    """Also one whose other items are of neither team."""
    lists = [(("v2", None), "a"), (("v2",), "a"), (("control", "control"), "b"), ((), "a")]
    found = found_of(*fair("control", "v2"), *lists, declared=True)
    assert outcomes(found) == (2, 0, 2) and not found.without_control
    words = "50 % of the interleaved lists do not name both a team called control and another one"
    assert f"{words}: they are left out" in found.warnings


def test_variants_are_compared_beside_lists_that_are_not() -> None:
    found = found_of(*fair("bm25", "vector"), declared=True, q="control", r="treatment")
    assert not found.without_control and outcomes(found) is None
    assert found.warnings[0].startswith("none of the 4 interleaved lists names both a team called ")
