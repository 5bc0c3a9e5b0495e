"""Records of aborted transactions are logged seldom, and all of them counted."""

from aiokafka import TopicPartition
from structlog.testing import capture_logs

from relevanced.daemon.kafka import AbortedLog
from relevanced.daemon.telemetry import KafkaFault

PARTITION = TopicPartition("events", 3)


def test_aborted_transaction_is_logged_once_a_minute() -> None:
    noted: list[KafkaFault] = []
    with capture_logs() as logged:
        aborted = AbortedLog(noted.append)
        for now_s in (0.0, 10.0, 59.0, 60.0):
            aborted.report({PARTITION: 5}, now_s)
        aborted.report({}, 200.0)
    assert [(line["topic"], line["partition"], line["records"]) for line in logged] == [
        ("events", 3, 5),
        ("events", 3, 15),
    ]
    assert noted == ["aborted"] * 4
