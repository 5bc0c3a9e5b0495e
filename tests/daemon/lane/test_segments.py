"""Values as segments, and the ids of segments and combinations."""

import random
import re

import numpy as np
import pytest

from relevanced.daemon.lane import LaneSegments, escape, segment_of
from tests.builders import plan_with

ESCAPED = {
    "US": "US",
    "": "",
    "all": "\\all",
    "other": "\\other",
    "All": "All",
    "alls": "alls",
    "\\all": "\\\\all",
    "a,b": "a\\,b",
    "\\": "\\\\",
    "a\\,b": "a\\\\\\,b",
    "(none)": "(none)",
}


def values_of(segment: str) -> list[str]:
    """The values of the segment: split at unescaped commas, then unescaped."""
    parts = re.findall(r"(?:^|,)((?:[^\\,]|\\.)*)", segment)
    return [re.sub(r"\\(.)", r"\1", part) for part in parts]


@pytest.mark.parametrize(("value", "segment"), ESCAPED.items())
def test_commas_backslashes_and_reserved_words_are_escaped(value: str, segment: str) -> None:
    assert escape(value) == segment


def test_a_segment_can_be_read_back_into_its_values() -> None:
    rng = random.Random(1)
    texts = ["all", "other", *("".join(rng.choices("\\,alo", k=n % 5)) for n in range(200))]
    for pair in zip(texts, rng.sample(texts, len(texts))):
        assert tuple(values_of(segment_of(pair))) == pair


def test_no_value_looks_like_the_whole_or_the_overflow() -> None:
    texts = ["all", "other", "\\all", "a,ll", "\\\\other"]
    assert not {escape(text) for text in texts} & {"all", "other"}


def test_a_missing_value_is_none_in_brackets() -> None:
    assert segment_of(("US", None)) == "US,(none)"
    assert segment_of((None,)) == "(none)"


def test_experiments_are_read_by_their_prefix() -> None:
    plan = plan_with(groupings=(("experiment:ranker", "country"), ("device",)))
    values = plan.values_of({"ranker": "no", "device": "ios"}, {"ranker": "b", "country": "no"})
    by_grouping = [[values[n] for n in indices] for indices in plan.value_indices]
    assert by_grouping == [["b", None], ["ios"]]


# Ids


def test_ids_count_up_and_are_never_reused() -> None:
    segments = LaneSegments()
    ids = [
        segments.segment_id(1, "US"),
        segments.segment_id(2, "US"),
        segments.segment_id(1, "US"),
    ]
    assert ids == [1, 2, 1]
    assert segments.segment_id(0, "all") == 0
    assert segments.names == [(0, "all"), (1, "US"), (2, "US")]


def test_stored_names_keep_their_ids() -> None:
    segments = LaneSegments.of([(0, "all"), (1, "US"), (1, "DE")])
    assert [segments.segment_id(1, name) for name in ("DE", "US", "FR")] == [2, 1, 3]


def test_combinations_are_shared() -> None:
    segments = LaneSegments()
    ids = [segments.combination_id(each) for each in ((0, 1), (0, 2), (0, 1))]
    assert ids == [0, 1, 0]
    assert segments.combination_table().tolist() == [[0, 1], [0, 2]]


def test_only_combinations_in_use_are_kept() -> None:
    segments = LaneSegments()
    for number in range(5):
        segments.combination_id((0, number))
    assert segments.keep_combinations(np.array([1, 4]))[[1, 4]].tolist() == [0, 1]
    assert segments.combinations == [(0, 1), (0, 4)]
    assert [segments.combination_id((0, number)) for number in (4, 1, 2)] == [1, 0, 2]
    assert segments.combination_table().tolist() == [[0, 1], [0, 4], [0, 2]]
