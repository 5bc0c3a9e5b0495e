"""Which values are admitted, and that what is remembered of them changes nothing."""

from collections import Counter

import numpy as np

from relevanced.daemon.lane import Admission, LaneSegments, ParsedAttributes, admitted_of
from tests.builders import PLAN, START_MS, plan_with

LONGEST = PLAN.timing.longest


def admission() -> Admission:
    """Admits ten values."""
    return Admission.empty(PLAN)


def filled(at_pane: int = 0) -> Admission:
    full = admission()
    for number in range(PLAN.admitted_values):
        assert full.admit(0, f"v{number}", at_pane * LONGEST.pane_ms)
    return full


def test_only_the_first_values_are_admitted() -> None:
    full = filled()
    assert not full.admit(0, "late", 0)
    assert full.admit(0, "v0", 0)


def test_each_grouping_admits_its_own_values() -> None:
    plan = plan_with(groupings=(("country",), ("device",)))
    both = Admission.empty(plan)
    for number in range(plan.admitted_values + 1):
        both.admit(0, f"v{number}", 0)
    assert both.admit(1, "ios", 0)
    assert [len(values) for values in both.seen] == [10, 1]


def test_a_value_unseen_for_the_longest_window_is_dropped() -> None:
    full = filled()
    full.admit(0, "v3", LONGEST.pane_ms)
    assert not full.admit(0, "new", LONGEST.length_ms + LONGEST.pane_ms - 1)
    assert full.admit(0, "new", LONGEST.length_ms + LONGEST.pane_ms)
    assert set(full.seen[0]) == {"v3", "new"}


def test_values_stay_admitted_while_there_is_room() -> None:
    roomy = admission()
    roomy.admit(0, "old", 0)
    roomy.admit(0, "new", 10 * LONGEST.length_ms)
    assert set(roomy.seen[0]) == {"old", "new"}


def test_an_older_watermark_does_not_make_a_value_older() -> None:
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


def test_dropping_values_is_a_change() -> None:
    full = filled()
    full.changed = False
    assert full.admit(0, "new", 2 * LONGEST.length_ms)
    assert full.changed


def test_admission_depends_on_order_alone() -> None:
    first, second = admission(), admission()
    for number in range(12):
        first.admit(0, f"v{number}", 0)
        second.admit(0, f"v{11 - number}", 0)
    assert set(first.seen[0]) == {f"v{number}" for number in range(10)}
    assert set(second.seen[0]) == {f"v{number}" for number in range(2, 12)}


def test_a_value_that_is_left_out_counts_in_other_and_is_counted_by_grouping() -> None:
    full, segments, overflow = filled(), LaneSegments(), Counter({"country": 4})
    combination_id = full.combination_of(("new",), 0, segments, overflow)
    assert segments.combinations[combination_id] == (0, 1)
    assert segments.names[1] == (1, "other")
    assert overflow == {"country": 5}


def parsed(*countries: str) -> list[ParsedAttributes]:
    """A table of attribute texts, one per country."""
    return [ParsedAttributes((country,), 0, (), {}, {}) for country in countries]


def test_a_batch_of_texts_counts_like_its_impressions_one_by_one() -> None:
    table, countries = parsed("v1", "v2", "new", "v2"), [2, 0, 1, 2, 3, 0, 2]
    batched, singly = filled(), filled()
    segments, overflow = (LaneSegments(), LaneSegments()), (Counter[str](), Counter[str]())
    for _ in range(2):
        ids = batched.combinations_of(np.array(countries), table, 0, segments[0], overflow[0])
        assert ids.tolist() == [
            singly.combination_of(table[n].values, 0, segments[1], overflow[1]) for n in countries
        ]
    assert segments[0].names == segments[1].names
    assert overflow[0] == overflow[1] == {"country": 6}


def test_a_table_of_texts_may_grow() -> None:
    texts, segments, overflow = parsed("US"), LaneSegments(), Counter[str]()
    open_for_all = admission()
    first = open_for_all.combinations_of(np.array([0]), texts, 0, segments, overflow)
    texts += parsed("DE")
    both = open_for_all.combinations_of(np.array([1, 0]), texts, 0, segments, overflow)
    assert [segments.combinations[n] for n in both.tolist()] == [(0, 2), (0, 1)]
    assert both[1] == first[0]


def test_ids_of_another_table_mean_other_texts() -> None:
    segments, overflow, values = LaneSegments(), Counter[str](), admission()
    for country, segment_id in (("US", 1), ("DE", 2)):
        [id_] = values.combinations_of(np.array([0]), parsed(country), 0, segments, overflow)
        assert segments.combinations[id_] == (0, segment_id)


def test_texts_are_looked_up_again_in_the_next_pane() -> None:
    """There they are seen again, which keeps their values admitted."""
    segments, overflow, values, texts = LaneSegments(), Counter[str](), admission(), parsed("US")
    for pane in (0, 1):
        watermark_ms = pane * LONGEST.pane_ms
        values.combinations_of(np.array([0]), texts, watermark_ms, segments, overflow)
        assert values.seen == [{"US": pane}]


def test_texts_are_looked_up_again_once_combinations_have_other_ids() -> None:
    segments, overflow, values, texts = (
        LaneSegments(),
        Counter[str](),
        admission(),
        parsed("US", "DE"),
    )
    values.combinations_of(np.array([0, 1]), texts, 0, segments, overflow)
    segments.keep_combinations(np.array([1]))
    values.forget_combinations()
    ids = values.combinations_of(np.array([0, 1]), texts, 0, segments, overflow)
    assert [segments.combinations[n] for n in ids.tolist()] == [(0, 1), (0, 2)]


def test_a_value_called_other_is_not_the_overflow() -> None:
    segments, overflow = LaneSegments(), Counter[str]()
    admission().combination_of(("other",), START_MS, segments, overflow)
    assert segments.names[1] == (1, "\\other")
    assert not overflow


def test_admission_read_back_is_a_copy() -> None:
    stored = {"events": [{"US": 5}]}
    back = admitted_of(stored, "events", PLAN)
    assert back.admit(0, "US", 9 * LONGEST.pane_ms)
    assert stored == {"events": [{"US": 5}]} and back.seen == [{"US": 9}]
    assert admitted_of(stored, "clicks", PLAN).seen == [{}]
