"""Compression of what tests send to Kafka: the product only unpacks."""

import ctypes
from collections.abc import Callable
from typing import Any, Final

import aiokafka.codec
import lz4.frame

from relevanced.daemon.kafka import LIBRARIES, KafkaProducer, install_codecs

try:
    from compression import zstd
except ImportError:  # before Python 3.14
    from backports import zstd

_LONGEST_SHORT_LITERAL: Final = 60


class Lz4Producer(KafkaProducer):
    """The product's producer, with lz4 batches, as those of a search service may be."""

    async def start(self) -> None:
        """Connect; waits while the cluster is away."""
        install_compression()
        await super().start()

    def _arguments(self) -> dict[str, Any]:
        return {**super()._arguments(), "compression_type": "lz4"}


def install_compression() -> None:
    """Let aiokafka's producers in this process write every codec, until codecs are installed
    again.
    """
    install_codecs()
    cramjam = aiokafka.codec.cramjam
    cramjam.snappy.compress_raw = lambda data: SNAPPY["libsnappy" if LIBSNAPPY else "Python"](data)
    cramjam.lz4.Compressor = Lz4Compressor
    cramjam.zstd.compress = lambda data, level: zstd.compress(bytes(data), level=level)


class Lz4Compressor:
    """Gathers one frame, whose blocks are independent: brokers take no others."""

    def __init__(self, *, level: int, **frame: bool) -> None:
        self._level = level
        self._frame = frame
        self._data = b""

    def compress(self, data: bytes | memoryview) -> None:
        self._data += data

    def finish(self) -> bytes:
        packed: bytes = lz4.frame.compress(
            self._data, compression_level=self._level, store_size=False, **self._frame
        )
        return packed


def snappy_literals(data: bytes | memoryview) -> bytes:
    """Return a raw block that stores the data as one literal: valid, and no smaller."""
    length = _varint(len(data))
    return length + _literal_head(len(data)) + bytes(data) if len(data) else length


def libsnappy_block(data: bytes | memoryview) -> bytes:
    """Return the raw block that libsnappy makes."""
    assert LIBSNAPPY is not None
    LIBSNAPPY.snappy_max_compressed_length.argtypes = [ctypes.c_size_t]
    LIBSNAPPY.snappy_max_compressed_length.restype = ctypes.c_size_t
    size = ctypes.c_size_t(LIBSNAPPY.snappy_max_compressed_length(len(data)))
    out = ctypes.create_string_buffer(size.value)
    LIBSNAPPY.snappy_compress(bytes(data), ctypes.c_size_t(len(data)), out, ctypes.byref(size))
    return out.raw[: size.value]


def _libsnappy() -> ctypes.CDLL | None:
    for name in LIBRARIES:
        try:
            return ctypes.CDLL(name)
        except OSError:
            continue
    return None


def _literal_head(size: int) -> bytes:
    if size <= _LONGEST_SHORT_LITERAL:
        return bytes([(size - 1) << 2])
    width = ((size - 1).bit_length() + 7) // 8
    tag = (_LONGEST_SHORT_LITERAL + width - 1) << 2
    return bytes([tag]) + (size - 1).to_bytes(width, "little")


def _varint(number: int) -> bytes:
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)


LIBSNAPPY: Final = _libsnappy()
SNAPPY: Final[dict[str, Callable[[bytes | memoryview], bytes]]] = {
    "Python": snappy_literals,
    **({"libsnappy": libsnappy_block} if LIBSNAPPY else {}),
}
"""Ways to make raw blocks; that of the library where this machine has it."""
