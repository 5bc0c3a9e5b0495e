"""What is said of a change, word for word."""

from dataclasses import replace
from pathlib import Path
from typing import Final

import pytest

from relevanced.daemon.changes import (
    HOUR_MS,
    MINUTE_MS,
    PATTERNS,
    Explanation,
    Fall,
    FallOnset,
    MeasuredChange,
    Moved,
    Noticed,
    Story,
    sentences,
)

README: Final = Path(__file__).parents[3] / "README.md"
AT = 1_795_185_240_000
"""2026-11-20 14:34 UTC."""
NOW = AT + 75 * MINUTE_MS


def onset(minutes: float, *, known: bool = True) -> FallOnset:
    half = minutes * MINUTE_MS / 2
    return FallOnset(AT, AT - half if known else None, AT + half, by_panes=True)


def moved(before: float = 0.5518, now: float = 0.1903) -> Moved:
    levels = (MeasuredChange(before, 0.002, 19_800), MeasuredChange(now, 0.002, 24_310))
    return Moved(("country", "DE", "RR@10"), *levels, 0.003, (19_800, 24_310))


def story(minutes: float = 4, known: bool = True, **of: object) -> Story:
    fall = Fall(
        ("country", "DE", "RR@10"), AT, onset(minutes, known=known), ("hour",), AT, float(AT)
    )
    return replace(Story(fall, ("DE",), moved(), False, -118.2, ("hour",), AT), **of)


def recovered(lasted_ms: float) -> Story:
    fall = replace(story().fall, recovered_ms=AT + lasted_ms)
    return replace(story(), fall=fall)


def test_no_sentence_has_a_level_that_is_not_known() -> None:
    nothing = MeasuredChange(None, None, 0)
    unknown = story(own=Moved(("country", "DE", "RR@10"), nothing, nothing, 0.0, (0, 0)), z=None)
    over = replace(unknown, fall=replace(unknown.fall, recovered_ms=AT + HOUR_MS))
    gone = replace(unknown, fall=replace(unknown.fall, unscored_ms=AT + HOUR_MS))
    worse = "RR@10 of country DE got worse at 14:34"
    assert sentences.headline(unknown, NOW) == (
        f"{worse}; it has no series now, so its level is not known."
    )
    assert sentences.recovery(over, NOW) == "RR@10 of country DE recovered at 15:34."
    assert sentences.recovery(gone, NOW) == (
        f"{worse}; ended at 15:34: nothing comparable is scored since, so whether it recovered is"
        " not known."
    )


@pytest.mark.parametrize(
    ("told", "now_ms", "text"),
    [
        (story(), NOW, "RR@10 of country DE fell from 0.55 to 0.19 at 14:34, not recovered."),
        (
            story(30),
            NOW,
            "RR@10 of country DE fell from 0.55 to 0.19 between 14:19 and 14:49, not recovered.",
        ),
        (
            story(known=False),
            NOW,
            "RR@10 of country DE fell from 0.55 to 0.19 before 14:36, not recovered.",
        ),
        (
            story(),
            NOW + 12 * HOUR_MS,
            "RR@10 of country DE fell from 0.55 to 0.19 at 20 Nov 14:34, not recovered.",
        ),
        (
            story(segments=("DE", "FR", "JP")),
            NOW,
            "RR@10 of country DE, FR and JP fell from 0.55 to 0.19 at 14:34, not recovered.",
        ),
        (
            story(own=moved(now=0.0512)),
            NOW,
            "RR@10 of country DE fell from 0.55 to 0.051 at 14:34, not recovered.",
        ),
        (story(), AT + 8 * 24 * HOUR_MS, "RR@10 of country DE is 66 % lower since 20 Nov."),
    ],
)
def test_an_open_change_says_what_fell_since_when(told: Story, now_ms: int, text: str) -> None:
    assert sentences.headline(told, now_ms) == text


def test_a_score_of_which_less_is_better_rises() -> None:
    fall = replace(story().fall, series=("all", "all", "Abandonment"))
    told = story(
        fall=fall,
        segments=("all",),
        own=moved(0.3, 0.5),
    )
    assert sentences.fell(told, NOW) == "Abandonment everywhere rose from 0.30 to 0.50 at 14:34"


@pytest.mark.parametrize(
    ("lasted_ms", "words"),
    [(6.5 * HOUR_MS, "6 h 30 min"), (20 * MINUTE_MS, "20 min"), (50 * HOUR_MS, "2 d 2 h")],
)
def test_a_recovery_says_how_long_it_lasted(lasted_ms: float, words: str) -> None:
    text = sentences.recovery(recovered(lasted_ms), AT + 60 * HOUR_MS)
    assert f": for {words} it was 0.19, 0.55 before." in text


def test_the_detail_says_who_carries_it_and_where_to_look() -> None:
    explanation = Explanation("country", ("DE",), 0.93, -0.1, 0.0, -0.11, 0.25)
    ranking = next(pattern for pattern in PATTERNS if pattern.name == "RANKING")
    told = story(explanation=explanation, pattern=ranking)
    assert sentences.detail(told) == (
        "It carries nearly all of the fall of the whole. Looks like RANKING: relevant items stand "
        "at lower ranks. Look at: ranker release, features, boosts."
    )
    most = replace(explanation, carried=0.7)
    assert sentences.detail(story(explanation=most)).startswith("It carries most of the fall")
    assert sentences.detail(story()) == ""


def test_a_quiet_site_says_what_would_have_been_noticed() -> None:
    day = Noticed("weeks", 0.051, AT - 24 * HOUR_MS)
    soon = Noticed("hour", 0.13, AT - 3 * HOUR_MS)
    assert sentences.good([day], "RR@10", AT, NOW) == (
        "Up to 14:34 search was as good as in the last weeks. A fall of RR@10 by 6 % that began "
        "before 19 Nov 14:34 would have been noticed."
    )
    assert sentences.good([day, soon], "RR@10", AT, NOW).endswith(
        "by 6 % that began before 19 Nov 14:34, or by 13 % that began before 11:34, would have "
        "been noticed."
    )
    last = Noticed("hour", 0.073, AT + 128 * MINUTE_MS)
    quiet = sentences.good([last], "RR@10", AT + 164 * MINUTE_MS, AT + 166 * MINUTE_MS)
    assert f" {quiet}\n" in README.read_text(), "what the demo prints"
    assert sentences.watching(AT, NOW) == "Watching since 14:34. Nothing to compare with yet."
    assert sentences.watching(None, NOW).startswith("Nothing has settled yet")
