"""Refused records are logged, and do not flood the log."""

from types import SimpleNamespace

from structlog.testing import capture_logs

from relevanced.daemon.telemetry.rate_limit import LOG_AGAIN_AFTER_S
from relevanced.daemon.worker.batch import DeadLetter
from relevanced.daemon.worker.refused_records import DETAIL_CHARACTERS, RefusedRecordsLog


def refused(reason: str, offset: int) -> DeadLetter:
    record = SimpleNamespace(topic="events", partition=3, offset=offset)
    return DeadLetter(record, reason, "x" * 1_000)  # type: ignore[arg-type]


def test_each_reason_is_logged_once_a_minute_with_a_record_and_a_count() -> None:
    log = RefusedRecordsLog()
    with capture_logs() as lines:
        log.log([refused("too_large", 5), refused("not_json", 6), refused("not_json", 7)], 0)
        log.log([refused("not_json", n) for n in range(8, 1_000)], LOG_AGAIN_AFTER_S - 1)
        log.log([refused("not_json", 1_000)], LOG_AGAIN_AFTER_S)
    logged = [(line["reason"], line["offset"], line["records"]) for line in lines]
    assert logged == [("too_large", 5, 1), ("not_json", 6, 1), ("not_json", 1_000, 994)]
    assert {(line["topic"], line["partition"], line["log_level"]) for line in lines} == {
        ("events", 3, "warning")
    }
    assert {len(line["detail"]) for line in lines} == {DETAIL_CHARACTERS}
