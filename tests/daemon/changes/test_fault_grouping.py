"""One story for one fault: who is named, what is only diluted, what it looks like."""

from collections.abc import Callable, Mapping
from itertools import product

import numpy as np
import pytest

from relevanced.daemon.changes import (
    COUNTS,
    HOUR_MS,
    MINUTE_MS,
    ChangeSettings,
    Counts,
    Fall,
    FallCall,
    FallGroup,
    FallOnset,
    Followed,
    JudgedBins,
    Levels,
    Look,
    Scene,
    ScoreNoise,
    ScoreTimeline,
    Story,
    followed,
    kept_together,
    onsets,
    scan,
)
from relevanced.daemon.plan import COUNT_COLUMNS

SEED = 20261123
END = 1000 * HOUR_MS
COUNTRIES = {"US": 0.40, "DE": 0.25, "FR": 0.15, "JP": 0.13, "BR": 0.07}
DEVICES = {"web": 0.5, "ios": 0.3, "android": 0.2}
METRICS = ("nDCG@10", "Success@10", "RR@10")
PER_PANE = 3_000
PANE = 2 * MINUTE_MS
SEGMENTS = (
    ("all", "all"),
    *(("country", name) for name in COUNTRIES),
    *(("device", name) for name in DEVICES),
)
Cell = tuple[str, str]
Effect = Callable[[Cell], Mapping[str, float]]
"""Of a cell (country, device): factors on `found`, `rank`, `empty`, `traffic`."""


def site(effect: Effect, broken_ms: int, known_ms: int = 5 * HOUR_MS) -> tuple[Look, Counts]:
    """Searches of all cells in panes of two minutes; the effect holds for the last `broken_ms`."""
    rng = np.random.default_rng(SEED)
    starts = np.arange(END - known_ms, END, PANE, dtype=np.int64)
    rows = np.zeros((len(starts), len(SEGMENTS), len(METRICS), 3))
    counts = np.zeros((len(starts), len(SEGMENTS), len(COUNTS)))
    for country, device in product(COUNTRIES, DEVICES):
        members = [
            SEGMENTS.index(name)
            for name in (("all", "all"), ("country", country), ("device", device))
        ]
        size = PER_PANE * COUNTRIES[country] * DEVICES[device]
        for pane, start in enumerate(starts):
            now = effect((country, device)) if start >= END - broken_ms else {}
            searches = rng.poisson(size * now.get("traffic", 1.0))
            empty = rng.random(searches) < now.get("empty", 0.02)
            level = 0.45 + 0.25 * (country == "US")
            found = (rng.random(searches) < level * now.get("found", 1.0)) & ~empty
            rank = rng.geometric(0.5 * now.get("rank", 1.0), searches)
            values = (found / np.log2(rank + 1), found, found / rank)
            kept = [found] + [np.ones(searches, bool)] * 2
            for index, (value, of) in enumerate(zip(values, kept, strict=True)):
                rows[pane, members, index] += (of.sum(), value[of].sum(), (value[of] ** 2).sum())
            listed = 10.0 * ~empty
            feedback = found.sum() * 1.3
            counts[pane, members] += (
                *(searches, found.sum(), empty.sum(), feedback),
                *(listed.sum(), (listed**2).sum()),
            )
    series = [(*segment, metric) for segment in SEGMENTS for metric in METRICS]
    parts = (rows[..., which].reshape(len(starts), -1) for which in range(3))
    timeline = ScoreTimeline(starts, starts + PANE, *parts, np.zeros(len(starts), bool))
    look = Look(
        timeline, series, np.ones(len(series)), ScoreNoise(1.2, np.full(len(series), 0.006))
    )
    return look, Counts({name: index for index, name in enumerate(SEGMENTS)}, counts)


def called(look: Look) -> Followed:
    found = scan(look.timeline, look.directions, look.noise)
    began = onsets(look.timeline, look.directions, found.since_ms - 2 * HOUR_MS, look.noise)
    calls = [
        FallCall(
            "hour",
            look.series[index],
            FallOnset(
                began.likely[index], began.earliest[index], began.latest[index], by_panes=True
            ),
        )
        for index in np.flatnonzero(found.called).tolist()
    ]
    return followed((), look, look.timeline, calls)


def stories(effect: Effect, minutes: int = 40) -> tuple[Story, ...]:
    look, counts = site(effect, minutes * MINUTE_MS)
    return Scene(look, counts, ChangeSettings()).stories(called(look).faults)


def only(*, country: str = "", device: str = "", **effect: float) -> Effect:
    def of(cell: Cell) -> Mapping[str, float]:
        return effect if (country or cell[0], device or cell[1]) == cell else {}

    return of


def test_counts_are_those_of_rows() -> None:
    assert COUNTS == COUNT_COLUMNS


def test_a_broken_country_is_one_story_that_names_it() -> None:
    (story,) = stories(only(country="DE", rank=0.3))
    assert story.fall.series == ("country", "DE", "RR@10") and story.segments == ("DE",)
    assert story.explanation is not None and 0.85 < story.explanation.carried < 1.15
    assert abs(story.fall.onset.likely - (END - 40 * MINUTE_MS)) <= PANE
    assert story.pattern is not None and story.pattern.name == "RANKING"
    assert story.own.change_ratio is not None and -0.55 < story.own.change_ratio < -0.4


def test_segments_that_share_its_traffic_are_diluted_and_no_story() -> None:
    (story,) = stories(only(country="DE", found=0.3))
    assert {moved.series[1] for moved in story.diluted} >= {"web", "ios", "android"}
    assert not {moved.series[1] for moved in story.diluted} & {"US", "FR", "JP", "BR"}
    assert {moved.series for moved in story.also} >= {("country", "DE", "Success@10")}
    assert all((moved.change_ratio or 0) < 0 for moved in (*story.also, *story.diluted))


def test_two_countries_that_break_together_are_named_together() -> None:
    (story,) = stories(lambda cell: {"found": 0.5} if cell[0] in ("DE", "FR") else {})
    assert sorted(story.segments) == ["DE", "FR"] and story.fall.series[0] == "country"


def test_a_device_is_named_where_it_explains_the_change() -> None:
    (story,) = stories(only(device="ios", found=0.6))
    assert story.fall.series[:2] == ("device", "ios")


@pytest.mark.parametrize(
    ("effect", "pattern"),
    [
        (only(rank=0.4), "RANKING"),
        (only(empty=0.25), "RETRIEVAL"),
        (only(found=0.7), "TRACKING or RETRIEVAL"),
    ],
)
def test_what_breaks_everywhere_is_told_of_the_whole(effect: Effect, pattern: str) -> None:
    (story,) = stories(effect)
    assert story.fall.series[:2] == ("all", "all") and story.explanation is None
    assert story.pattern is not None and story.pattern.name == pattern


def judged_bins(look: Look, *, score: float, since_ms: int = 0) -> JudgedBins:
    """Half of the searches of the whole are judged; from the fault on they have this score."""
    timeline = look.timeline
    counted = np.full((len(timeline.starts), 1), PER_PANE / 2)
    means = np.where(timeline.starts >= END - 40 * MINUTE_MS, score, 0.8)[:, None]
    rows = (counted, counted * means, counted * (means**2 + 0.04))
    judged = ScoreTimeline(timeline.starts, timeline.ends, *rows, timeline.hourly)
    return JudgedBins(judged, counted, {("all", "all"): 0}, 1, (0,), since_ms)


@pytest.mark.parametrize(
    ("score", "since_ms", "pattern"),
    [
        (0.8, 0, "TRACKING"),
        (0.72, 0, "RANKING or RETRIEVAL"),
        # Nothing that another file graded is compared: what the file has not graded is not known.
        (0.8, END - 30 * MINUTE_MS, "TRACKING or RETRIEVAL"),
    ],
)
def test_judged_scores_say_whether_results_or_clicks_are_missing(
    score: float, since_ms: int, pattern: str
) -> None:
    look, counts = site(only(found=0.7), 40 * MINUTE_MS)
    bins = judged_bins(look, score=score, since_ms=since_ms)
    (story,) = Scene(look, counts, ChangeSettings(), lambda: bins).stories(called(look).faults)
    assert story.pattern is not None and story.pattern.name == pattern
    (plain,) = Scene(look, counts, ChangeSettings()).stories(called(look).faults)
    assert plain.pattern is not None and plain.pattern.name == "TRACKING or RETRIEVAL"


def test_traffic_that_moves_to_weak_segments_is_mix() -> None:
    """A flood of searches from countries that score lower."""
    story, *_ = stories(lambda cell: {} if cell[0] == "US" else {"traffic": 6.0})
    assert story.pattern is not None and story.pattern.name == "MIX"


def test_the_score_that_tells_is_of_the_first_family_that_fell() -> None:
    """nDCG leaves out searches without feedback: it says little, and is told last."""
    (story,) = stories(only(rank=0.4))
    assert story.fall.series[2] == "RR@10"


def test_the_story_keeps_its_name_and_levels_while_the_fault_lasts() -> None:
    effect = only(country="DE", found=0.5)
    told = [stories(effect, minutes)[0] for minutes in (10, 40, 120)]
    assert {story.fall.series for story in told} == {("country", "DE", "RR@10")}
    for story in told:
        assert story.own.change_ratio == pytest.approx(-0.5, abs=0.05)


def test_faults_hours_apart_are_two_stories() -> None:
    look, counts = site(lambda cell: {"found": 0.5} if cell[0] == "DE" else {}, 180 * MINUTE_MS)
    falls = list(called(look).falls)
    again = Fall(
        ("country", "JP", "RR@10"),
        END - HOUR_MS,
        FallOnset(END - HOUR_MS, END - HOUR_MS - PANE, END - HOUR_MS + PANE, by_panes=True),
        ("hour",),
        END,
        float(END - HOUR_MS),
    )
    faults = kept_together([*falls, again], Levels(look, look.timeline)).faults
    told = Scene(look, counts, ChangeSettings()).stories(faults)
    assert {story.segments for story in told} == {("DE",), ("JP",)}


def test_a_quiet_site_has_no_story() -> None:
    assert stories(lambda cell: {}) == ()


def test_a_fall_of_a_segment_that_is_not_shown_is_told_without_levels() -> None:
    look, counts = site(only(country="DE", found=0.5), 40 * MINUTE_MS)
    gone = Fall(
        ("country", "AT", "RR@10"),
        END,
        FallOnset(END, END, END, by_panes=True),
        ("hour",),
        END,
        END,
    )
    (story,) = Scene(look, counts, ChangeSettings()).stories([FallGroup((gone,))])
    assert story.own.now.mean is None and story.segments == ("AT",)


def test_where_the_whole_is_as_clear_as_the_half_that_was_called_it_is_everywhere() -> None:
    look, counts = site(lambda cell: {"found": 0.5}, 60 * MINUTE_MS)
    onset = FallOnset(END - HOUR_MS, END - HOUR_MS - PANE, END - HOUR_MS + PANE, by_panes=True)
    half = ("device", "web", "Success@10")
    fall = Fall(half, END - HOUR_MS, onset, ("hour",), END, float(END - HOUR_MS))
    faults = kept_together([fall], Levels(look, look.timeline)).faults
    (told,) = Scene(look, counts, ChangeSettings()).stories(faults)
    assert (told.fall.series[0], told.segments) == ("all", ("all",))
