"""The table of faults in the guide is what the last trial saw, under the rules that there are."""

import pytest

from deploy.tables import renewed
from tests.trial import outcomes
from tests.trial.expected import EXPECTED
from tests.trial.outcomes import GUIDE, HEADING, Outcome, digest, stale, stored, table
from tests.trial.sighting import Step
from tests.trial.test_verdict import BROKEN_S, EXPECT, seen


def test_the_table_of_the_guide_is_made_of_the_last_outcomes() -> None:
    text = GUIDE.read_text()
    assert text == renewed(text, HEADING, table())


def test_every_row_was_tried_with_these_rules_and_was_in_time() -> None:
    """Else: make trial SCENARIO="…" with what is named here."""
    assert stale() == []
    assert len([one for one in EXPECTED.values() if one.fault]) > 25


def test_a_row_is_tried_again_once_its_rules_change(monkeypatch: pytest.MonkeyPatch) -> None:
    """Those that its alert follows from; not their texts."""
    before, rules = digest("RelevancedNoSnapshot"), outcomes._rules()
    (alert,), (recorded,) = rules["RelevancedNoSnapshot"], rules["relevanced:redis_fails"]
    monkeypatch.setattr(outcomes, "_rules", lambda: rules)
    alert["annotations"] = {}
    assert digest("RelevancedNoSnapshot") == before and stale() == []
    recorded["expr"] += " + 0"
    assert digest("RelevancedNoSnapshot") != before and "redis-away" in stale()


def test_an_outcome_is_the_first_alert_and_how_many_notifications_came() -> None:
    sightings = [seen(), seen(step=Step.NOTIFIED), seen(after_s=200, step=Step.RESOLVED)]
    found = Outcome.of(sightings, EXPECT, BROKEN_S, BROKEN_S + 150)
    assert (found.alert, found.seconds, found.notifications) == ("RelevancedDown", 60, 1)
    assert (found.says, found.severity) == ("It was last scraped at noon.", "page")


def test_outcomes_are_of_scenarios() -> None:
    assert stored().keys() <= EXPECTED.keys()
