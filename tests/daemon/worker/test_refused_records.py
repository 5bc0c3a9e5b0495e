"""Refused records are logged, and do not flood the log."""

import json
from types import SimpleNamespace

import pytest
from structlog.testing import capture_logs

from relevanced.daemon.events import Limits, Rejected, decoder
from relevanced.daemon.telemetry import LOG_AGAIN_AFTER_S
from relevanced.daemon.worker import DETAIL_CHARACTERS, DeadLetter, RefusedRecordsLog

PERSONAL = "jane.doe@example.com"
REFUSED = [
    json.dumps({"type": "impression", "impression_id": "1", **bad}).encode()
    for bad in (
        {"timestamp": PERSONAL, "items": ["a"]},
        {"timestamp": 1, "items": PERSONAL, "attributes": {"country": "US"}},
        {"type": PERSONAL, "timestamp": 1},
    )
]


def refused(reason: str, offset: int) -> DeadLetter:
    record = SimpleNamespace(topic="events", partition=3, offset=offset)
    return DeadLetter(record, reason, "x" * 1_000)  # type: ignore[arg-type]


def test_each_reason_is_logged_once_a_minute_with_a_record_and_a_count() -> None:
    log = RefusedRecordsLog(values=True)
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


@pytest.mark.parametrize("record", REFUSED)
def test_a_line_shows_nothing_of_the_record_unless_values_are_switched_on(record: bytes) -> None:
    (rejected,) = decoder("native", Limits())(record, None)
    assert isinstance(rejected, Rejected)
    where = SimpleNamespace(topic="events", partition=3, offset=7)
    letter = DeadLetter(where, rejected.reason, rejected.detail)  # type: ignore[arg-type]
    with capture_logs() as masked:
        RefusedRecordsLog().log([letter], 0)
    with capture_logs() as shown:
        RefusedRecordsLog(values=True).log([letter], 0)
    assert PERSONAL not in str(masked) and PERSONAL in str(shown)
    assert (masked[0]["reason"], masked[0]["offset"]) == (rejected.reason, 7)
