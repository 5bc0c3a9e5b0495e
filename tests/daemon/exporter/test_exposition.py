"""The texts of a snapshot, read back by the parsers of both formats."""

from collections.abc import Callable
from dataclasses import replace
from typing import cast

import numpy as np
import pytest
from hypothesis import given, strategies as st
from msgspec import structs
from prometheus_client.metrics_core import Metric as SeriesFamily
from prometheus_client.samples import Sample

from relevanced.daemon.changes import (
    ChangeSettings,
    Explanation,
    Fall,
    FallOnset,
    FeedbackGap,
    Least,
    Marker,
    MarkerReach,
    MeasuredChange,
    Moved,
    Onsets,
    ScoreFloor,
    Silence,
    Story,
    ToldChange,
)
from relevanced.daemon.events import DROP_REASONS, REJECTION_REASONS, SKIP_REASONS
from relevanced.daemon.exporter import (
    FAMILY_OF_COUNT,
    TAKEN,
    Detection,
    Exposition,
    FoundChanges,
    MeasureScores,
    arrival_samples,
    change_samples,
    file_samples,
    floor_samples,
    joined,
    label_names,
    marker_samples,
    open_change_samples,
    render_changes,
    render_design_effect,
    silence_samples,
    traffic_change_samples,
    traffic_changes_of,
)
from relevanced.daemon.lane import (
    COUNT_FAMILIES,
    FEEDBACK_OUTCOMES,
    IMPRESSION_OUTCOMES,
    Since,
    attribute_values,
    escape,
)
from relevanced.daemon.plan import NONE
from relevanced.daemon.recompute.buckets import view_of
from relevanced.daemon.storage import InForce, QueryHead, first_layouts
from relevanced.daemon.telemetry import FAMILIES
from relevanced.daemon.views import LaneFiles, LaneView, Names
from tests.arms import SPEC, found_of, partly_defined, stratified_arms, with_interleaved
from tests.daemon.test_surfaces import seen_by
from tests.judged_lanes import entry, exposed_judged, lane as judged_lane, scored, steady
from tests.lane_views import (
    NOW_MS,
    PLAN,
    Shown,
    compared,
    exposed,
    exposed_compared,
    lane_view,
    read_openmetrics,
    read_text,
)

Parse = Callable[[Exposition], list[SeriesFamily]]
HOSTILE = [
    "",
    '"',
    "\\",
    "\n",
    'a\\"b\n',
    "all",
    "other",
    "a,b",
    NONE,
    "\x00\r\t",
    "\u2028é\U0001f50d",
    "}",
]
"""Values of attributes that a format might stumble over."""  # fmt: skip


def parse_text(exposition: Exposition) -> list[SeriesFamily]:
    return read_text(b"".join(exposition.text))


def parse_openmetrics(exposition: Exposition) -> list[SeriesFamily]:
    return read_openmetrics(b"".join((*exposition.openmetrics, b"# EOF\n")))


@pytest.fixture(params=[parse_text, parse_openmetrics], ids=["text", "openmetrics"])
def parse(request: pytest.FixtureRequest) -> Parse:
    return cast(Parse, request.param)


def samples(families: list[SeriesFamily], name: str, **labels: str) -> list[Sample]:
    return [
        sample
        for family in families
        for sample in family.samples
        if sample.name == name and labels.items() <= sample.labels.items()
    ]


def value(families: list[SeriesFamily], name: str, **labels: str) -> float | None:
    found = [sample.value for sample in samples(families, name, **labels)]
    assert len(found) <= 1, found
    return found[0] if found else None


LIVE = {"window": "1m", "view": "live", "grouping": "all", "segment": "all"}


def test_scores_and_counts_of_a_window(parse: Parse) -> None:
    families = parse(exposed([lane_view([Shown(), Shown(values=(0.0, 1.0, None), feedback=0)])]))
    assert value(families, "relevanced_score", metric="P@1", **LIVE) == 0.5
    assert value(families, "relevanced_score", metric="RR@10", **LIVE) == 0.75
    assert value(families, "relevanced_score_stderr", metric="P@1", **LIVE) == 0.5
    assert value(families, "relevanced_scored_impressions", metric="RR@10", **LIVE) == 2
    assert value(families, "relevanced_impressions", **LIVE) == 2
    assert value(families, "relevanced_impressions_with_feedback", **LIVE) == 1


def test_no_traffic_undefined_and_zero_stay_apart(parse: Parse) -> None:
    shown = [Shown(values=(0.0, None, None)), Shown(country="DE", time_ms=NOW_MS - 300_000)]
    families = parse(exposed([lane_view(shown)]))
    zero = {"window": "1m", "view": "live", "grouping": "country", "segment": "US"}
    idle = {**zero, "segment": "DE"}
    assert value(families, "relevanced_score", metric="P@1", **zero) == 0
    assert value(families, "relevanced_score", metric="RR@10", **zero) is None
    assert value(families, "relevanced_scored_impressions", metric="RR@10", **zero) == 0
    assert value(families, "relevanced_impressions", **zero) == 1
    assert value(families, "relevanced_score", metric="P@1", **idle) is None
    assert value(families, "relevanced_impressions", **idle) == 0


def test_counters_are_what_settled_in_units_of_the_metric(parse: Parse) -> None:
    shown = [Shown(values=(1.0, 0.25, None))] * 3
    families = parse(exposed([lane_view(shown, watermark_ms=NOW_MS + 100_000)]))
    of = {"grouping": "country", "segment": "US", "country": "US"}
    assert value(families, "relevanced_settled_impressions_total", **of) == 3
    assert value(families, "relevanced_settled_feedback_total", **of) == 3
    of["metric"] = "RR@10"
    assert value(families, "relevanced_settled_score_sum_total", **of) == 0.75
    assert value(families, "relevanced_settled_score_squares_total", **of) == 0.1875
    assert value(families, "relevanced_settled_scored_impressions_total", **of) == 3


def test_expected_labels_begin_at_zero(parse: Parse) -> None:
    families = parse(
        exposed([lane_view([], counts={"gap_records": {"t": 2}, "ahead_events": {"t": 3}})])
    )
    for name, label, expected in (
        ("events", "kind", ("impression", "feedback")),
        ("rejected_events", "reason", (*REJECTION_REASONS, *SKIP_REASONS)),
        ("dropped_attribute_values", "reason", DROP_REASONS),
        ("impression_outcomes", "outcome", IMPRESSION_OUTCOMES),
        ("feedback_outcomes", "outcome", FEEDBACK_OUTCOMES),
        ("segment_overflow", "grouping", ("country", "country,device")),
    ):
        found = samples(families, f"relevanced_{name}_total")
        assert {sample.labels[label]: sample.value for sample in found} == dict.fromkeys(
            expected, 0
        )
    assert value(families, "relevanced_gap_records_total", topic="t") == 2
    assert value(families, "relevanced_ahead_events_total", topic="t") == 3


def test_dropped_values_are_no_rejections(parse: Parse) -> None:
    rejected = {"not_json": 2, "long_value": 3}
    families = parse(exposed([lane_view([], counts={"rejected": rejected})]))
    assert value(families, "relevanced_rejected_events_total", reason="not_json") == 2
    assert value(families, "relevanced_rejected_events_total", reason="long_value") is None
    assert value(families, "relevanced_dropped_attribute_values_total", reason="long_value") == 3


def test_skipped_records_have_topic_and_reason(parse: Parse) -> None:
    counts = {"skipped": {"shop/not_mapped": 2, "shop/bot": 3}}
    families = parse(exposed([lane_view([], counts=counts)]))
    for reason, expected in (("not_mapped", 2), ("bot", 3)):
        labels = {"topic": "shop", "reason": reason}
        assert value(families, "relevanced_skipped_events_total", **labels) == expected


def test_what_is_counted_by_log_is_shown_by_topic(parse: Parse) -> None:
    """As in a lane that has several partitions of a topic."""
    logs = {"shop/0": 2, "shop/1": 3, "app/0": 4}
    skipped = {f"{log}/bot": count for log, count in logs.items()}
    families = parse(exposed([lane_view([], counts={"behind_lift": logs, "skipped": skipped})]))
    for topic, expected in (("shop", 5), ("app", 4)):
        assert value(families, "relevanced_behind_lift_total", topic=topic) == expected
        labels = {"topic": topic, "reason": "bot"}
        assert value(families, "relevanced_skipped_events_total", **labels) == expected


def test_every_stored_count_has_its_series() -> None:
    assert set(FAMILY_OF_COUNT) == set(COUNT_FAMILIES)


def test_times_and_what_is_left_out_are_shown(parse: Parse) -> None:
    slow = lane_view([Shown()], lane=3)
    fast = lane_view([Shown()], lane=4, watermark_ms=NOW_MS + 200_000)
    families = parse(exposed([slow, fast]))
    view = {"window": "10m", "view": "settled"}
    assert value(families, "relevanced_as_of_timestamp_seconds") == NOW_MS / 1000
    end_s = value(families, "relevanced_window_end_timestamp_seconds", **view)
    assert end_s == (NOW_MS - PLAN.timing.settle_ms) / 1000
    assert (
        value(families, "relevanced_lane_time_timestamp_seconds", lane="4") == NOW_MS / 1000 + 200
    )
    assert value(families, "relevanced_window_incomplete", window="1m", view="live") == 1
    assert value(families, "relevanced_window_incomplete", **view) == 0


def test_without_events_there_are_no_windows(parse: Parse) -> None:
    families = parse(exposed([lane_view([], watermark_ms=None)]))
    assert not samples(families, "relevanced_impressions")
    assert not samples(families, "relevanced_as_of_timestamp_seconds")
    assert value(families, "relevanced_events_total", kind="impression") == 0


@pytest.mark.parametrize("name", HOSTILE, ids=ascii)
def test_hostile_values_come_back_whole(parse: Parse, name: str) -> None:
    families = parse(exposed([lane_view([Shown(country=name, device='"\n\\,')])]))
    [one] = samples(
        families, "relevanced_impressions", grouping="country", window="1m", view="live"
    )
    assert (one.labels["segment"], one.labels["country"]) == (escape(name), name)
    both = {"grouping": "country,device", "window": "1m", "view": "live"}
    [two] = samples(families, "relevanced_impressions", **both)
    assert (two.labels["country"], two.labels["device"]) == (name, '"\n\\,')


@given(st.lists(st.text(max_size=8), min_size=1, max_size=4))
def test_any_values_split_as_they_were_joined(values: list[str]) -> None:
    assert attribute_values(",".join(map(escape, values))) == values


def test_other_carries_no_attribute(parse: Parse) -> None:
    families = parse(exposed([lane_view([Shown(country=name) for name in "AABBC"])]))
    one = {"grouping": "country", "segment": "other", "window": "1m", "view": "live"}
    [sample] = samples(families, "relevanced_impressions", **one)
    assert (sample.value, "country" in sample.labels) == (1, False)


def test_names_that_are_not_valid_labels_get_valid_ones() -> None:
    groupings = [("a-b", "a.b", "a_b"), ("metric", "__x", "experiment:r", "日"), ("attr_a_b", "le")]
    labels = label_names(groupings)
    assert labels["a_b"] == "a_b"
    assert (labels["a-b"], labels["a.b"]) == ("attr_a_b_2", "attr_a_b_3")
    assert (labels["metric"], labels["__x"]) == ("attr_metric", "attr___x")
    assert labels["experiment:r"] == "attr_experiment_r"
    assert len(set(labels.values())) == len(labels)


@given(st.lists(st.text(min_size=1, max_size=5) | st.sampled_from(sorted(TAKEN)), unique=True))
def test_distinct_names_have_distinct_labels(names: list[str]) -> None:
    labels = label_names([names])
    assert len(set(labels.values())) == len(names)
    assert not TAKEN & set(labels.values())
    assert all(label.isascii() and label.isidentifier() for label in labels.values())


def test_a_taken_name_is_no_second_label(parse: Parse) -> None:
    plan = replace(PLAN, groupings=(("view",), ("view", "device")))
    view = lane_view([Shown()])
    names = Names((g.replace("country", "view"), s) for g, s in view.names.segments)
    families = parse(exposed([replace(view, names=names)], plan))
    [one] = samples(families, "relevanced_impressions", grouping="view", window="1m", view="live")
    assert one.labels["attr_view"] == "US"


@pytest.mark.parametrize("name", ["side", "urgency", "pattern", "against", "bound", "measure"])
def test_no_label_of_a_change_stands_twice(name: str, parse: Parse) -> None:
    """Prometheus refuses a whole scrape for one sample with a label twice."""
    plan = replace(PLAN, groupings=((name,),))
    told = Detection(told=(replace(open_change(), series=(name, "x", "RR@10")),))
    text = render_changes(open_change_samples("feedback", told, plan))
    for family in parse(text):
        for sample in family.samples:
            assert sample.labels[f"attr_{name}"] == "x"
    assert b"".join(text.text).count(f',{name}="x"'.encode()) == 0


def with_new_metrics(view: LaneView) -> LaneView:
    """A lane that has had all of its metrics since a moment ago."""
    first = first_layouts(InForce(PLAN, 1))
    columns = dict.fromkeys(PLAN.column_ids, NOW_MS)
    since = Since(columns, first.since.groupings, first.since.windows)
    return replace(view, layouts=structs.replace(first, since=since))


def test_what_a_window_cannot_show_yet_is_absent_with_the_time_from_which_it_counts(
    parse: Parse,
) -> None:
    shown = [Shown(values=(1.0, 1.0, 1.0))]
    families = parse(exposed([with_new_metrics(lane_view(shown)), lane_view(shown, lane=1)], PLAN))
    assert not samples(families, "relevanced_score")
    [counted] = samples(
        families, "relevanced_impressions", grouping="all", window="1m", view="live"
    )
    assert counted.value == 2
    since = samples(families, "relevanced_column_since_timestamp_seconds", grouping="all")
    assert {sample.value for sample in since} == {NOW_MS / 1000}
    assert len(since) == len(PLAN.metrics) * len(PLAN.timing.windows)


TABLES = QueryHead(hours={0: 300, 3_600_000: 200}, closed_ms=3_600_000, last_counts=(10, 40))


def test_tables_of_queries_are_bytes_and_a_share(parse: Parse) -> None:
    shown = [Shown()]
    earlier = QueryHead(hours={0: 7}, closed_ms=0, last_counts=(9, 9))
    views = [replace(lane_view(shown), queries=head) for head in (TABLES, TABLES, earlier)]
    families = parse(exposed([replace(view, lane=n) for n, view in enumerate(views)], PLAN))
    assert value(families, "relevanced_query_tables_bytes") == 1007
    assert value(families, "relevanced_query_other_ratio") == 0.25
    assert value(parse(exposed([lane_view(shown)])), "relevanced_query_tables_bytes") is None


def test_series_are_those_of_the_table(parse: Parse) -> None:
    expected = {family.name for family in FAMILIES.values() if family.source == "snapshot"}
    shown = [Shown(country=name, values=(1.0, 1.0, 1.0)) for name in "AABBC"]
    of_topics = ("gap_records", "ahead_events", "replaced_logs", "behind_lift")
    counts = {name: {"t": 1} for name in of_topics}
    counts |= {"skipped": {"t/not_mapped": 1}, "judged_late": {"impression": 1}}
    views = [lane_view(shown, counts={"events": {"feedback": 1}, **counts})]
    arms = with_interleaved(stratified_arms(*[{"DE": (300, 0.5), "US": (300, 0.5)}] * 2))
    families = parse(
        joined(
            exposed(views, PLAN, found_of(arms, replace(SPEC, stratify_by="country"))),
            exposed_compared([lane_view(shown, watermark_ms=NOW_MS + PLAN.timing.settle_ms)]),
        )
    )
    lane = seen_by("web", country="US")
    families += parse(exposed([view_of(lane)], lane.plan))
    families += parse(exposed(views, PLAN, found_of(partly_defined(0.6, 0.7))))
    families += parse(render_design_effect(1.5, 1.4, {"P@1": 0.01}))
    families += parse(render_changes(change_samples(fallen(), PLAN)))
    told = Detection(told=(open_change(),))
    families += parse(render_changes(open_change_samples("feedback", told, PLAN)))
    families += parse(exposed([with_new_metrics(lane_view(shown))], PLAN))
    families += parse(exposed([replace(lane_view(shown), queries=TABLES)], PLAN))
    marker = Marker("m", NOW_MS, "release", 'the "8th"', scope=MarkerReach(None, "country", "DE"))
    families += parse(render_changes(marker_samples([marker], NOW_MS)))
    stopped = Silence("feedback", NOW_MS, 900.0)
    gap = FeedbackGap(NOW_MS - 600_000, NOW_MS)
    families += parse(render_changes(silence_samples([stopped], [gap], NOW_MS)))
    families += parse(render_changes(arrival_samples({"searches": 900.0}, {"searches": 950.0})))
    scores, settings = without_results()
    usual = traffic_changes_of(scores, settings)
    families += parse(render_changes(traffic_change_samples(usual, PLAN)))
    families += parse(render_changes(floor_samples(scores, settings)))
    refusing = LaneFiles(0, (entry(0),), (entry(NOW_MS),))
    families += parse(exposed_judged(scored(judged_lane(steady(24 * 15), refusing))))
    families += parse(render_changes(file_samples([refusing], {"traffic": [refusing]})))
    found = {sample.name: set(sample.labels) for family in families for sample in family.samples}
    assert set(found) == expected
    for name, labels in found.items():
        assert labels - {"country", "device"} == set(FAMILIES[name].labels)


def without_results() -> tuple[MeasureScores, ChangeSettings]:
    """Half of many searches return no results, and a score is below its floor."""
    shown = [Shown(country=name, values=(1.0, 1.0, 1.0)) for name in "AB"]
    scores = compared([lane_view(shown, watermark_ms=NOW_MS + PLAN.timing.settle_ms)])
    (hour,) = scores.comparisons
    recent = hour.recent * 1000
    recent[:, 2] = recent[:, 0] / 2
    periods = {by: rows * 1000 for by, rows in hour.periods.items()}
    windows = [replace(hour, window=w, recent=recent, periods=periods) for w in ("1h", "6h")]
    floor = ScoreFloor(PLAN.metrics[0].name, "all", "all", 2.0)
    return replace(scores, comparisons=windows), ChangeSettings(score_floors=(floor,))


def fallen() -> Detection:
    """The first metric of the whole fell an hour ago."""
    times = [np.array([NOW_MS - 3600e3 + step]) for step in (-1e3, 0.0, 1e3)]
    found = FoundChanges("hour", np.array([0]), np.array([0.2]), np.array([-9.0]), Onsets(*times))
    least = np.array([0.05, np.inf, np.inf])
    return Detection((("all", "all"),), (found,), (Least("hour", least, np.zeros(3)),), NOW_MS)


def open_change() -> ToldChange:
    """A change of one country, which explains that of the whole."""
    series, onset = ("country", "DE", "P@1"), FallOnset(NOW_MS, NOW_MS - 1.0, NOW_MS + 1.0, True)
    sides = (MeasuredChange(mean, 0.01, 100) for mean in (0.5, 0.3))
    moved = Moved(series, *sides, 0.02, (100, 100), (0.8, 0.7), (1.0, 0.9))
    fall = Fall(series, NOW_MS, onset, ("hour",), NOW_MS, NOW_MS)
    carried = Explanation("country", ("DE",), 0.9, -0.2, 0.0, -0.2, 0.5)
    story = Story(fall, ("DE",), moved, False, -10.0, ("hour",), NOW_MS, carried)
    return ToldChange(series, "page", "hour", moved, onset, story, NOW_MS)


def test_what_is_unknown_of_a_change_is_absent(parse: Parse) -> None:
    families = parse(render_changes(change_samples(fallen(), PLAN)))
    known = samples(families, "relevanced_noticeable_drop_ratio")
    assert [sample.labels["metric"] for sample in known] == ["P@1"]
    onset = samples(families, "relevanced_change_onset_timestamp_seconds", bound="earliest")
    assert [sample.value for sample in onset] == [(NOW_MS - 3601e3) / 1000]
    empty = replace(fallen(), found=(), noticeable=(), begin_ms=None)
    assert not render_changes(change_samples(empty, PLAN)).text


def test_no_sample_carries_a_time_or_a_creation(parse: Parse) -> None:
    families = parse(exposed([lane_view([Shown()])]))
    found = [sample for family in families for sample in family.samples]
    assert all(sample.timestamp is None for sample in found)
    assert not [sample for sample in found if sample.name.endswith("_created")]


def test_the_same_snapshot_is_the_same_bytes() -> None:
    views: list[LaneView] = [lane_view([Shown(country=name) for name in "CABAB"])]
    again = [lane_view([Shown(country=name) for name in "BABAC"])]
    assert exposed(views) == exposed(again)


def test_lengths_of_lists_stand_beside_their_baseline() -> None:
    shown = [Shown(listed=10), Shown(listed=4), Shown(listed=4, zero_result=False)]
    views = [lane_view(shown, watermark_ms=NOW_MS + PLAN.timing.settle_ms)]
    text = b"".join(exposed_compared(views).text).decode()
    where = '{grouping="all",segment="all",window="1h"}'
    assert f"relevanced_recent_list_length{where} 6\n" in text
    assert f"relevanced_recent_list_length_stderr{where} 2\n" in text
    assert f"relevanced_baseline_list_length{where} 6\n" in text
    assert f"relevanced_recent_feedback{where} 3\n" in text


def test_what_is_partly_silent_or_long_ago_has_no_series(parse: Parse) -> None:
    parts = Silence("searches", NOW_MS, 900.0, partitions=(1,))
    never = Silence("feedback", NOW_MS, 0.0)
    gap = FeedbackGap(NOW_MS - 90_000_000, NOW_MS - 86_400_000)
    assert [*silence_samples([parts, never], [gap], NOW_MS)] == []
