"""Damage to a broker's log on disk: what a bad disk, or a bug, leaves. Only while it is stopped in
order: after a crash a broker looks at its logs itself, and cuts what is damaged."""

import struct
from collections.abc import Callable, Iterator
from pathlib import Path

from aiokafka.record.util import calc_crc32c_py

from tests.services.kafka_server import KafkaServer

OVERHEAD_BYTES = 12
"""Base offset and length: the length counts what follows."""
CRC_AT = 17
ATTRIBUTES_AT = 21
GZIP, UNKNOWN_CODEC = 1, 5


def batches(data: bytes) -> Iterator[tuple[int, int]]:
    """(start, end) of each record batch."""
    start = 0
    while start < len(data):
        end = start + OVERHEAD_BYTES + struct.unpack_from(">i", data, start + 8)[0]
        yield start, end
        start = end


def segment(broker: KafkaServer, topic: str, partition: int) -> Path:
    return broker.directory / "data" / f"{topic}-{partition}" / f"{0:020}.log"


def rewrite(path: Path, number: int, change: Callable[[bytearray], bytes | bytearray]) -> None:
    """Change the batch of this number."""
    data = path.read_bytes()
    start, end = list(batches(data))[number]
    path.write_bytes(data[:start] + change(bytearray(data[start:end])) + data[end:])


def flip_a_bit(batch: bytearray) -> bytearray:
    """The checksum does not fit any more."""
    batch[-3] ^= 0x10
    return batch


def claim_codec(codec: int) -> Callable[[bytearray], bytearray]:
    """Claims to be compressed with it, which it is not, with a checksum that fits."""

    def claim(batch: bytearray) -> bytearray:
        batch[ATTRIBUTES_AT + 1] = (batch[ATTRIBUTES_AT + 1] & ~0x07) | codec
        struct.pack_into(">I", batch, CRC_AT, calc_crc32c_py(bytes(batch[ATTRIBUTES_AT:])))
        return batch

    return claim


def cut_from(path: Path, number: int) -> None:
    """The log ends before this batch, as after a machine that had acknowledged more lost power."""
    data = path.read_bytes()
    start, _ = list(batches(data))[number]
    path.write_bytes(data[:start])
    for beside in (*path.parent.glob("*index"), *path.parent.glob("*.snapshot")):
        beside.unlink()
    path.parent.parent.joinpath(".kafka_cleanshutdown").unlink()
