"""Where no feedback joins, the sentences say why."""

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from relevanced.daemon.config import load
from relevanced.daemon.recompute import replay_files

IMPRESSIONS = [
    {"type": "impression", "impression_id": f"s{n}", "items": ["d3", "d7"]} for n in range(3)
]


def feedback(**given: Any) -> list[dict[str, Any]]:
    return [
        {"type": "feedback", "impression_id": f"s{n}", "kind": "click", "item": "d7", **given}
        for n in range(3)
    ]


Replayed = Callable[..., tuple[int, str]]


@pytest.fixture
def replayed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Replayed:
    """The exit code, and what is printed beside the scores."""

    def of(*events: dict[str, Any], config: str = "") -> tuple[int, str]:
        path = tmp_path / "events.jsonl"
        path.write_text("\n".join(lines(events)))
        code = replay_files.replay(
            [str(path)], load(config, {}, "test"), "json", as_is=False, progress=False
        )
        return code, capsys.readouterr().err

    return of


def lines(events: Sequence[dict[str, Any]]) -> list[str]:
    return [
        json.dumps(event | {"timestamp": f"2026-11-20T12:00:{at:02}Z"})
        for at, event in enumerate(events)
    ]


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (
            {"impression_id": "s0x"},
            "None of 3 pieces of feedback joined an impression. 3 are for impressions that were"
            " not read: impression ids look like s0, s1, those of feedback like s0x.",
        ),
        ({"kind": "Click"}, "Click has no grade in attribution.grades: did you mean click?"),
        ({"kind": "view"}, "view has no grade in attribution.grades, which has click"),
        (
            {"kind": "\x1b[2Jview"},
            "None of 3 pieces of feedback joined an impression. \\x1b[2Jview has no grade",
        ),
        ({"impression_id": "\x1b[2J"}, "those of feedback like \\x1b[2J."),
        ({"item": "x1"}, "3 are for items that their impression did not show: is an item named"),
    ],
)
def test_why_none_joined_is_said(replayed: Replayed, given: dict[str, Any], said: str) -> None:
    code, errors = replayed(*IMPRESSIONS, *feedback(**given))
    assert code == 1 and said in errors


def test_no_feedback_at_all_is_said(replayed: Replayed) -> None:
    code, errors = replayed(*IMPRESSIONS)
    assert code == 0 and errors.startswith("There is no feedback, so every score is 0")


def test_that_feedback_is_perhaps_what_was_rejected_is_said(replayed: Replayed) -> None:
    code, errors = replayed(*IMPRESSIONS, *feedback(kind=None))
    assert code == 1 and "Are the 3 rejected records feedback (missing_field)?" in errors
    assert "There is no feedback" not in errors


def test_where_some_joins_nothing_is_said(replayed: Replayed) -> None:
    code, errors = replayed(*IMPRESSIONS, *feedback()[:1], *feedback(item="x")[1:])
    assert (code, errors) == (0, "")


def test_where_hardly_any_joins_it_is_said_too(replayed: Replayed) -> None:
    strangers = [event for _ in range(7) for event in feedback(impression_id="x")]
    code, errors = replayed(*IMPRESSIONS, *feedback()[:1], *strangers)
    assert code == 0 and errors.startswith("Only 1 of 22 pieces of feedback joined an impression.")
    assert "21 are for impressions that were not read" in errors
    assert replayed(*IMPRESSIONS, *feedback(), *strangers)[1] == "", "3 of 24 are some"


def test_kinds_without_a_grade_are_not_missed(replayed: Replayed) -> None:
    views = [event for _ in range(10) for event in feedback(kind="view")]
    assert replayed(*IMPRESSIONS, *feedback()[:1], *views) == (0, "")


@pytest.mark.parametrize(
    ("reaction", "said"),
    [
        ({"visitor": "guest"}, "3 are of visitors without an impression: are visitors named alike"),
        ({"item": "x"}, "3 are for impressions that were not read, or items that no list of their"),
    ],
)
def test_why_last_touch_joins_nothing_is_said_as_that(
    replayed: Replayed, reaction: dict[str, Any], said: str
) -> None:
    shown = [one | {"visitor": "v"} for one in IMPRESSIONS]
    reactions = feedback(**({"visitor": "v"} | reaction))
    config = '[attribution]\njoin = "last_touch"'
    code, text = replayed(*shown, *reactions, config=config)
    assert code == 1 and said in text, text
