"""Values as segments, numbers for them, and which are let in."""

import random
import re
from collections import Counter

import numpy as np
import pytest

from relevanced.daemon.lane.segments import (
    NO_COMBINATION,
    Admission,
    Segments,
    admitted_of,
    combination_of,
    escape,
    segment_of,
)
from tests.builders import PLAN, START_MS, plan_with

LONGEST = PLAN.timing.longest
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
    """What the segment was made of: parted at bare commas, then without the escapes."""
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
    told = [[values[place] for place in places] for places in plan.value_indices]
    assert told == [["b", None], ["ios"]]


# Numbers


def test_numbers_are_given_once_and_in_order() -> None:
    segments = Segments()
    numbers = [
        segments.segment_id(1, "US"),
        segments.segment_id(2, "US"),
        segments.segment_id(1, "US"),
    ]
    assert numbers == [1, 2, 1]
    assert segments.segment_id(0, "all") == 0
    assert segments.names == [(0, "all"), (1, "US"), (2, "US")]


def test_stored_names_keep_their_numbers() -> None:
    segments = Segments.of([(0, "all"), (1, "US"), (1, "DE")])
    assert [segments.segment_id(1, name) for name in ("DE", "US", "FR")] == [2, 1, 3]


def test_combinations_are_shared() -> None:
    segments = Segments()
    numbers = [segments.combination_id(each) for each in ((0, 1), (0, 2), (0, 1))]
    assert numbers == [0, 1, 0]
    assert segments.combination_table().tolist() == [[0, 1], [0, 2]]


# Admission


def admission() -> Admission:
    """Room for ten values."""
    return Admission.empty(PLAN)


def filled(at_pane: int = 0) -> Admission:
    full = admission()
    for number in range(PLAN.admitted_values):
        assert full.admit(0, f"v{number}", at_pane * LONGEST.pane_ms)
    return full


def test_only_the_first_values_have_a_place() -> None:
    full = filled()
    assert not full.admit(0, "late", 0)
    assert full.admit(0, "v0", 0)


def test_groupings_have_places_of_their_own() -> None:
    plan = plan_with(groupings=(("country",), ("device",)))
    both = Admission.empty(plan)
    for number in range(plan.admitted_values + 1):
        both.admit(0, f"v{number}", 0)
    assert both.admit(1, "ios", 0)
    assert [len(values) for values in both.seen] == [10, 1]


def test_a_value_unseen_for_the_longest_window_gives_its_place_back() -> None:
    full = filled()
    full.admit(0, "v3", LONGEST.pane_ms)
    assert not full.admit(0, "new", LONGEST.length_ms + LONGEST.pane_ms - 1)
    assert full.admit(0, "new", LONGEST.length_ms + LONGEST.pane_ms)
    assert set(full.seen[0]) == {"v3", "new"}


def test_places_are_kept_while_there_is_room() -> None:
    roomy = admission()
    roomy.admit(0, "old", 0)
    roomy.admit(0, "new", 10 * LONGEST.length_ms)
    assert set(roomy.seen[0]) == {"old", "new"}


def test_an_older_sight_does_not_make_a_value_older() -> None:
    seen = admission()
    seen.admit(0, "US", 5 * LONGEST.pane_ms)
    seen.admit(0, "US", 0)
    assert seen.seen[0] == {"US": 5}


def test_only_what_differs_from_the_store_counts_as_changed() -> None:
    full = filled()
    full.changed = False
    full.admit(0, "v0", 0)
    assert not full.changed
    full.admit(0, "v0", LONGEST.pane_ms)
    assert full.changed


def test_places_given_back_are_a_change_even_without_a_new_sight() -> None:
    full = filled()
    full.changed = False
    assert full.admit(0, "new", 2 * LONGEST.length_ms)
    assert full.changed


def test_admission_is_a_matter_of_order_alone() -> None:
    first, second = admission(), admission()
    for number in range(12):
        first.admit(0, f"v{number}", 0)
        second.admit(0, f"v{11 - number}", 0)
    assert set(first.seen[0]) == {f"v{number}" for number in range(10)}
    assert set(second.seen[0]) == {f"v{number}" for number in range(2, 12)}


def test_what_finds_no_place_is_other_and_counted_by_grouping() -> None:
    full, segments, overflow = filled(), Segments(), Counter({"country": 4})
    number = combination_of(("new",), 0, full, segments, overflow)
    assert segments.combinations[number] == (0, 1)
    assert segments.names[1] == (1, "other")
    assert overflow == {"country": 5}


def test_what_is_known_of_a_text_is_known_in_its_pane_and_of_its_table_only() -> None:
    known, table = admission(), ["a", "b"]
    known.by_text(0, table)[1] = 7
    table.append("c")
    assert known.by_text(1, table).tolist() == [NO_COMBINATION, 7, NO_COMBINATION]
    assert known.by_text(1, list(table)).tolist() == [NO_COMBINATION] * 3
    known.by_text(1, table)[1] = 7
    assert known.by_text(LONGEST.pane_ms, table).tolist() == [NO_COMBINATION] * 3
    known.by_text(LONGEST.pane_ms, table)[1] = 7
    known.forget_recent()
    assert known.by_text(LONGEST.pane_ms, table).tolist() == [NO_COMBINATION] * 3


def test_a_value_called_other_is_not_the_overflow() -> None:
    segments, overflow = Segments(), Counter[str]()
    combination_of(("other",), START_MS, admission(), segments, overflow)
    assert segments.names[1] == (1, "\\other")
    assert not overflow


def test_admission_read_back_is_a_copy() -> None:
    stored = {"events": [{"US": 5}]}
    back = admitted_of(stored, "events", PLAN)
    assert back.admit(0, "US", 9 * LONGEST.pane_ms)
    assert stored == {"events": [{"US": 5}]} and back.seen == [{"US": 9}]
    assert admitted_of(stored, "clicks", PLAN).seen == [{}]


def test_of_many_combinations_those_in_use_are_kept() -> None:
    segments = Segments()
    for number in range(5):
        segments.combination_id((0, number))
    assert segments.keep_combinations(np.array([1, 4]))[[1, 4]].tolist() == [0, 1]
    assert segments.combinations == [(0, 1), (0, 4)]
    assert [segments.combination_id((0, number)) for number in (4, 1, 2)] == [1, 0, 2]
    assert segments.combination_table().tolist() == [[0, 1], [0, 4], [0, 2]]
