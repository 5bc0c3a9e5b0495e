"""What `check-config --against` says of each column."""

from pathlib import Path

import pytest
from click.testing import CliRunner

from relevanced.daemon.commands.check_config import check_config_command
from relevanced.daemon.commands.layout import layout_changes
from relevanced.daemon.config import load

OLD = '[segments]\ngroupings = [["country"]]\n[metrics]\nnames = ["RR@10", "P@5"]\n'


def changes(new: str, old: str = OLD) -> list[str]:
    plans = [load(text, {}, "test").plan for text in (old, new)]
    return list(layout_changes(*plans))


@pytest.mark.parametrize(
    ("replaced", "by", "said"),
    [
        ('"P@5"', '"P@5", "AP@5"', ["metrics RR@10, P@5: kept", "metric AP@5: is computed for"]),
        (
            '"P@5"',
            '"FirstFeedbackSeconds"',
            ["metrics RR@10: kept", "Seconds: begins with the next"],
        ),
        (', "P@5"', "", ["metric P@5: is lost; if it comes back, it begins anew"]),
        (
            '["country"]',
            '["device"]',
            ["grouping device: begins with", "grouping country: is lost"],
        ),
        (
            "[segments]",
            'windows = ["5m", "1h", "6h", "24h"]\n[segments]',
            ["window 6h: is made of"],
        ),
        ("[segments]", "[history]\ndays = 0\n[segments]", ["hours: all are removed"]),
        ("[segments]", "[history]\ndays = 42\n[segments]", ["hours: kept for 42 days"]),
    ],
)
def test_each_column_is_named_with_what_becomes_of_it(
    replaced: str, by: str, said: list[str]
) -> None:
    lines = "\n".join(changes(OLD.replace(replaced, by)))
    for each in said:
        assert each in lines


def test_grouping_that_is_derived_by_another_rule_begins_anew() -> None:
    derived = OLD + '[[derive]]\nattribute = "country"\nwords = [1, 2]\n'
    begins = "grouping country: begins anew, as it is derived by another rule"
    backfill = "earlier hours of what begins: once it is deployed, `relevanced backfill"
    for before, after in ((OLD, derived), (derived, OLD), (derived, derived.replace("2]", "3]"))):
        first, second = changes(after, before)
        assert first == begins and second.startswith(backfill)
    assert changes(derived, derived) == []


@pytest.mark.parametrize(
    ("replaced", "by", "is_said"),
    [
        ('"P@5"', '"P@5", "AP@5"', True),
        ('["country"]', '["country"], ["device"]', True),
        (', "P@5"', "", False),
        ("[segments]", "windows = ['5m', '1h']\n[segments]", False),
        ('"P@5"]', '"P@5", "AP@5"]\n[history]\ndays = 0', False),
    ],
)
def test_backfill_is_named_where_hours_lack_what_begins(
    replaced: str, by: str, is_said: bool
) -> None:
    said = "\n".join(changes(OLD.replace(replaced, by)))
    assert ("relevanced backfill --kafka" in said) == is_said, said


JUDGED = OLD + '[judgements]\ndirectory = "."\nmetrics = ["nDCG@3"]\n'
ASKED = '[queries]\ntext = "plain"\n'
REMOVED = "judged metrics: all begin anew with the next whole hour, and their hours are removed"
AGAIN = "tables of queries: begin anew with the next whole hour"


@pytest.mark.parametrize(
    ("old", "replaced", "by", "said"),
    [
        (JUDGED, "[segments]", 'windows = ["5m", "1h"]\n[segments]', set()),
        (JUDGED, '["country"]', '["country"], ["device"]', set()),
        (JUDGED, "[segments]", "[history]\ndays = 0\n[segments]", {REMOVED}),
        (JUDGED, "nDCG@3", "P@2", {REMOVED}),
        (JUDGED, '"P@5"', '"P@5", "AP@5"', set()),
        (JUDGED + ASKED, '"P@5"', '"P@5", "AP@5"', {REMOVED, AGAIN}),
        (JUDGED, "[segments]", "[history]\ndays = 42\n[segments]", set()),
    ],
)
def test_what_begins_anew_beside_the_metrics_is_said(
    old: str, replaced: str, by: str, said: set[str]
) -> None:
    assert set(changes(old.replace(replaced, by), old)) & {REMOVED, AGAIN} == said


def test_nothing_is_said_where_nothing_changes() -> None:
    assert changes(OLD) == [] == changes(OLD + "\n[http]\nlisten = '127.0.0.1:1'\n")


@pytest.mark.parametrize(
    ("more", "stays"),
    [("[history]\ndays = 42\n", True), ("[attribution]\nwindow = '20m'\n", False)],
)
def test_only_another_join_starts_a_fresh_namespace(more: str, stays: bool, tmp_path: Path) -> None:
    old, new = tmp_path / "old.toml", tmp_path / "new.toml"
    old.write_text(OLD)
    new.write_text(OLD + more)
    arguments = [str(new), "--against", str(old)]
    out = CliRunner().invoke(check_config_command, arguments).output
    assert ("the namespace stays" in out) == stays == ("each lane goes to it" in out)
    assert ("fresh namespace: relevanced-" in out) != stays
    assert ("relevanced backfill --kafka" in out) != stays
