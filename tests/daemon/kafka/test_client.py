"""Settings that cannot work are refused, and those of the consumer keep offsets out of Kafka."""

import pytest

from relevanced.daemon.errors import StartError
from relevanced.daemon.kafka import KafkaSettings, client_arguments, consumer_arguments


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"security_protocol": "TLS"}, "kafka.security_protocol=TLS: must be one of"),
        ({"security_protocol": "SASL_SSL"}, "needs sasl_username"),
        (
            {"security_protocol": "SASL_SSL", "sasl_mechanism": "GSSAPI"},
            "kafka.sasl_mechanism=GSSAPI: must be one of",
        ),
        ({"security_protocol": "SSL", "ssl_cafile": "/no/such/file"}, "ssl_cafile"),
    ],
)
def test_settings_that_cannot_work_are_named(fields: dict[str, str], message: str) -> None:
    with pytest.raises(StartError, match=message):
        client_arguments(KafkaSettings("localhost:9092", **fields))  # type: ignore[arg-type]


def test_consumer_neither_commits_nor_resets_by_itself() -> None:
    arguments = consumer_arguments(KafkaSettings("localhost:9092"))
    assert arguments["enable_auto_commit"] is False
    assert arguments["auto_offset_reset"] == "none"
    assert arguments["isolation_level"] == "read_committed"


def test_times_leave_room_for_each_other() -> None:
    """The batch in hand ends before the group gives up on us, and requests outlast a join."""
    settings = KafkaSettings("localhost:9092", session_timeout_s=45.0)
    assert settings.revoke_patience_s * 1000 < settings.rebalance_timeout_ms
    assert settings.rebalance_timeout_ms < settings.session_timeout_ms
    assert settings.rebalance_timeout_ms < settings.request_timeout_ms
    assert settings.heartbeat_interval_ms * 3 <= settings.session_timeout_ms
