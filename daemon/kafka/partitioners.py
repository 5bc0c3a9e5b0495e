"""How producers choose the partition of a key."""

import zlib
from collections.abc import Callable, Mapping
from typing import Final

from aiokafka.partitioner import murmur2

JAVA: Final = "murmur2"
PARTITIONERS: Final[Mapping[str, Callable[[bytes], int]]] = {
    JAVA: lambda key: murmur2(key) & 0x7FFFFFFF,
    "CRC32": zlib.crc32,
}
"""Partitioner → key → a number, which modulo the number of partitions is the partition. The first
is that of the Java client and of aiokafka, the second that of librdkafka."""
