"""What errors of the client mean."""

import pytest
from aiokafka.errors import (
    CorruptRecordException,
    GroupAuthorizationFailedError,
    RecordTooLargeError,
    TopicAuthorizationFailedError,
    UnsupportedCodecError,
)

from relevanced.daemon.kafka import fault_of


@pytest.mark.parametrize(
    ("error", "fault"),
    [
        (CorruptRecordException("Invalid CRC"), "corrupt_batch"),
        (RecordTooLargeError("larger than the fetch size"), "corrupt_batch"),
        (UnsupportedCodecError("0x05"), "unknown_codec"),
        (TopicAuthorizationFailedError("events"), "not_permitted"),
        (GroupAuthorizationFailedError("group"), "not_permitted"),
        (ValueError("whatever a decoder raises"), "unreadable"),
    ],
)
def test_errors_of_the_client_have_a_meaning(error: Exception, fault: str) -> None:
    assert fault_of(error) == fault
