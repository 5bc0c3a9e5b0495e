"""Keys of judged rows, and what the head says of them."""

from relevanced.daemon.judgements import HOUR_MS, DatedFiles, IndexEntry, Timeline, file_name
from relevanced.daemon.storage import (
    JUDGED,
    JUDGEMENTS_FIELD,
    Head,
    RowsHead,
    TimelineHead,
    WriterState,
    head_of,
    is_past,
    pack,
    timeline_head,
    unpack,
)
from relevanced.daemon.timing import timing

TIMING = timing([("5m", 300), ("1h", 3600)], 1800, 60)
ENTRIES = tuple(
    IndexEntry(hour * HOUR_MS, file_name(hour * HOUR_MS, "a.csv"), f"{hour:064x}")
    for hour in range(5)
)
FILES: DatedFiles[object] = DatedFiles(Timeline(ENTRIES[2:4], ENTRIES[4:]), past=ENTRIES[:2])


def test_key_names_its_pane_and_page() -> None:
    for window, length_s in ((0, 300), (1, 3600)):
        key = JUDGED.pane(TIMING, (window, 7_200_000), 3)
        assert key == f"judged:{length_s}:7200000:3"
        assert JUDGED.of_pane(TIMING, key) == ((window, 7_200_000), 3)
        assert JUDGED.of_hour(key) is None


def test_key_of_an_hour_is_none_of_a_pane() -> None:
    key = JUDGED.hour(3 * HOUR_MS, 12)
    assert key == "judged:hours:10800000:12"
    assert JUDGED.of_hour(key) == (3 * HOUR_MS, 12)
    assert JUDGED.of_pane(TIMING, key) is None


def test_other_keys_are_not_those_of_judged_rows() -> None:
    for key in ("rows:300:0:1", "hours:0:1", "totals:1", "layouts", "judged:60:0:1"):
        assert JUDGED.of_pane(TIMING, key) is None
        assert JUDGED.of_hour(key) is None


def test_head_has_what_was_packed() -> None:
    judged = RowsHead(5, HOUR_MS, ("P@5", "nDCG@10"), 12, (0, HOUR_MS))
    files = timeline_head(FILES)
    fields = {"token": b"t", "sequence": b"0", "offsets": b"{}"}
    head = head_of({**fields, JUDGED.field: pack(judged), JUDGEMENTS_FIELD: pack(files)})
    assert head.judged == judged and head.judgements == files
    for of in ({}, {JUDGED.field: b"", JUDGEMENTS_FIELD: b""}):
        head = head_of({**fields, **of})
        assert head.judged is None and head.judgements is None


def test_history_says_which_file_graded_a_kept_hour() -> None:
    files = unpack(pack(timeline_head(FILES)), TimelineHead)
    assert files.timeline == FILES.timeline
    assert [files.history.in_force(hour * HOUR_MS) for hour in range(4)] == list(ENTRIES[:4])
    assert files.timeline.in_force(HOUR_MS) is None


def test_judged_hours_are_past_when_the_settled_ones_are() -> None:
    head = Head("t", 1, {}, state=WriterState(open_hour=2 * HOUR_MS))
    hours = [JUDGED.hour(hour * HOUR_MS, 0) for hour in range(4)]
    assert [is_past(head, key) for key in hours] == [True, True, False, False]
    assert not is_past(head, JUDGED.pane(TIMING, (0, 0), 0))
    assert not is_past(Head("t", 1, {}), hours[0])
