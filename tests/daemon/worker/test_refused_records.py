"""Refused records are said in the log, and do not flood it."""

from types import SimpleNamespace

from structlog.testing import capture_logs

from relevanced.daemon.telemetry.rate_limit import SAY_AGAIN_AFTER_S
from relevanced.daemon.worker.batch import DeadLetter
from relevanced.daemon.worker.refused_records import DETAIL_CHARACTERS, Refusals


def refused(reason: str, offset: int) -> DeadLetter:
    record = SimpleNamespace(topic="events", partition=3, offset=offset)
    return DeadLetter(record, reason, "x" * 1_000)  # type: ignore[arg-type]


def test_each_reason_is_said_once_a_minute_with_a_place_and_a_count() -> None:
    refusals = Refusals()
    with capture_logs() as said:
        refusals.tell([refused("too_large", 5), refused("not_json", 6), refused("not_json", 7)], 0)
        refusals.tell([refused("not_json", n) for n in range(8, 1_000)], SAY_AGAIN_AFTER_S - 1)
        refusals.tell([refused("not_json", 1_000)], SAY_AGAIN_AFTER_S)
    told = [(line["reason"], line["offset"], line["records"]) for line in said]
    assert told == [("too_large", 5, 1), ("not_json", 6, 1), ("not_json", 1_000, 994)]
    assert {(line["topic"], line["partition"], line["log_level"]) for line in said} == {
        ("events", 3, "warning")
    }
    assert {len(line["detail"]) for line in said} == {DETAIL_CHARACTERS}
