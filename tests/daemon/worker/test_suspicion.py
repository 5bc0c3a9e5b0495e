"""Which records are taken one by one, and which one is passed over."""

from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any

from hypothesis import given, strategies as st

from relevanced.daemon.storage import NO_STALL, StallMark, pack_mark, unpack_mark
from relevanced.daemon.worker import Records, is_suspect, is_to_pass_over, next_mark, one_by_one


def records(**offsets: Any) -> Records:
    found: Any = {
        topic: [SimpleNamespace(topic=topic, offset=offset) for offset in part]
        for topic, part in offsets.items()
    }
    return found  # type: ignore[no-any-return]


BATCH = records(a=range(5, 9), b=range(2))
ENDS = {"a": 9, "b": 2}


def test_a_batch_is_suspect_once_two_owners_in_a_row_marked_it() -> None:
    once = next_mark(None, 7, BATCH, ENDS)
    twice = next_mark(once, 7, BATCH, ENDS)
    assert (once.times, twice.times, twice.record) == (1, 2, None)
    assert not is_suspect(once, {"a": 5, "b": 0})
    assert is_suspect(twice, {"a": 5, "b": 0})


def test_a_commit_between_two_marks_acquits_the_batch() -> None:
    once = next_mark(None, 7, BATCH, ENDS)
    later = next_mark(once, 8, BATCH, ENDS)
    assert later.times == 1


def test_a_batch_is_suspect_until_all_of_it_is_passed() -> None:
    mark = StallMark(7, 2, ENDS)
    assert is_suspect(mark, {"a": 9, "b": 1})
    assert not is_suspect(mark, {"a": 9, "b": 2})


def test_one_record_is_passed_over_once_two_owners_marked_it_and_no_other_ever() -> None:
    batch = StallMark(7, 2, ENDS)
    once = next_mark(batch, 9, records(a=[6]), {"a": 7})
    assert once == StallMark(9, 1, ENDS, ("a", 6))
    assert is_suspect(once, {"a": 6, "b": 0}) and not is_to_pass_over(once, records(a=[6]))
    twice = next_mark(once, 12, records(a=[6]), {"a": 7})
    assert twice == StallMark(12, 2, ENDS, ("a", 6))
    assert is_to_pass_over(twice, records(a=[6]))
    for others in (records(a=[5]), records(b=[6]), records(a=[6, 7]), records(a=[6], b=[0])):
        assert not is_to_pass_over(twice, others)
    assert next_mark(twice, 13, records(a=[7]), {"a": 8}).times == 1


def test_a_mark_is_read_as_it_was_written() -> None:
    mark = StallMark(12, 2, ENDS, ("a", 6))
    assert unpack_mark(pack_mark(mark)) == mark
    assert unpack_mark(NO_STALL) is None


@given(
    st.dictionaries(st.sampled_from("ab"), st.sets(st.integers(0, 20)).map(sorted)),
    st.dictionaries(st.sampled_from("ab"), st.integers(0, 25)),
)
def test_parts_are_the_batch_and_each_covered_record_is_alone(
    offsets: dict[str, list[int]], until: Mapping[str, int]
) -> None:
    batch = records(**offsets)
    ends = {topic: 30 for topic in batch}
    parts = list(one_by_one(StallMark(0, 2, until), batch, ends))
    for topic, part in batch.items():
        assert [r for some, _ in parts for r in some.get(topic, ())] == list(part)
    *alone, (rest, last) = parts
    assert last == ends
    assert all(r.offset >= until.get(topic, 0) for topic, part in rest.items() for r in part)
    for some, following in alone:
        ((topic, (record,)),) = some.items()
        assert record.offset < until[topic] and following == {topic: record.offset + 1}


@given(st.data())
def test_whatever_happens_only_what_stalls_is_passed_over(data: st.DataObject) -> None:
    """A log with records that stall their owner, and owners that also lose the lane for other
    reasons anywhere: all others are committed, once, and every record that stalls is passed
    over."""
    length = data.draw(st.integers(1, 12), label="records")
    stalling = data.draw(st.sets(st.integers(0, length - 1), max_size=2), label="stalling")
    mishaps = data.draw(
        st.lists(st.integers(0, 8), max_size=8), label="mishaps after so many steps"
    )
    state = _Played(length, frozenset(stalling))
    # Four owners for each record that stalls; one that commits records before it begins anew.
    for mishap in [*mishaps, *[99] * (4 * len(stalling) + length + 1)]:
        state.own(mishap, data.draw(st.integers(1, 12), label="batch"))
    assert state.offset == length
    assert state.passed_over == sorted(stalling)
    assert state.committed == [n for n in range(length) if n not in stalling]


class _Played:
    """A stored lane of one topic."""

    def __init__(self, length: int, stalling: frozenset[int]) -> None:
        self.length = length
        self.stalling = stalling
        self.offset = self.sequence = 0
        self.mark: StallMark | None = None
        self.committed: list[int] = []
        self.passed_over: list[int] = []

    def own(self, steps: int, batch: int) -> None:
        """One owner, which loses the lane when it stalls, or before its step of this number."""
        claimed = self.mark
        while self.offset < self.length:
            end = min(self.offset + batch, self.length)
            taken, ends = records(a=range(self.offset, end)), {"a": end}
            parts = [(taken, ends)]
            if claimed is not None and is_suspect(claimed, {"a": self.offset}):
                parts = list(one_by_one(claimed, taken, ends))
            for part, following in parts:
                if not steps:
                    return
                steps -= 1
                if claimed is not None and is_to_pass_over(claimed, part):
                    self.passed_over += [r.offset for r in part["a"]]
                elif any(record.offset in self.stalling for record in part["a"]):
                    self.mark = next_mark(claimed, self.sequence, part, following)
                    return
                else:
                    self.committed += [record.offset for record in part["a"]]
                self.offset, self.sequence = following["a"], self.sequence + 1
