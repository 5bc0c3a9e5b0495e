"""Every codec unpacks what was packed, and refuses damaged and oversized data."""

import gzip
import random
import secrets
from collections.abc import Callable
from types import ModuleType

import aiokafka.codec
import pytest
from aiokafka.errors import UnsupportedCodecError

from relevanced.daemon.kafka import (
    CorruptBlock,
    PythonSnappy,
    Snappy,
    TooLarge,
    codecs,
    codecs as kafka_snappy,
    install_codecs,
)
from tests.kafka_compression import SNAPPY, install_compression

LIMIT = 1 << 20
SIZES = (1, 2, 59, 60, 61, 255, 256, 257, 65_536, 65_537, 300_000)
BOTH_SNAPPIES = (PythonSnappy(), kafka_snappy.best_snappy())
SNAPPIES = {type(snappy).__name__: snappy for snappy in BOTH_SNAPPIES}
"""Ways to unpack: Python's, and the library's where this machine has it."""

Codec = tuple[Callable[[bytes], bytes], Callable[[bytes], bytes]]
CODECS: dict[str, Codec] = {
    "gzip": (aiokafka.codec.gzip_encode, aiokafka.codec.gzip_decode),
    "snappy": (aiokafka.codec.snappy_encode, aiokafka.codec.snappy_decode),
    "lz4": (aiokafka.codec.lz4_encode, aiokafka.codec.lz4_decode),
    "zstd": (aiokafka.codec.zstd_encode, aiokafka.codec.zstd_decode),
}


@pytest.fixture(autouse=True)
def installed() -> None:
    install_compression()


@pytest.fixture
def text() -> Callable[[int], bytes]:
    """Texts with repetitions, of any length."""
    seed = secrets.randbits(32)
    print(f"seed {seed}")
    chance = random.Random(seed)
    words = [b"impression", b"feedback", b'"items":', b"aaaaaaaa", b"q", b"{}", b"0123456789" * 9]

    def make(size: int) -> bytes:
        made = bytearray()
        while len(made) < size:
            made += chance.choice(words)
        return bytes(made[:size])

    return make


@pytest.mark.parametrize("name", CODECS)
@pytest.mark.parametrize("size", SIZES)
def test_unpacked_equals_packed(name: str, size: int, text: Callable[[int], bytes]) -> None:
    pack, unpack = CODECS[name]
    content = text(size)
    assert unpack(pack(content)) == content


def test_frames_may_follow_each_other(text: Callable[[int], bytes]) -> None:
    content = text(5_000)
    for name in ("lz4", "zstd"):
        pack, unpack = CODECS[name]
        assert unpack(pack(content) + pack(b"end")) == content + b"end"


@pytest.mark.parametrize("name", ["lz4", "zstd"])
def test_damaged_frames_are_refused(name: str, text: Callable[[int], bytes]) -> None:
    pack, unpack = CODECS[name]
    packed = pack(text(5_000))
    for damaged in (packed[:-5], packed[:3], b"\0" + packed, b"not a frame at all"):
        with pytest.raises(CorruptBlock):
            unpack(damaged)


@pytest.mark.parametrize("name", ["lz4", "zstd", "snappy"])
def test_content_over_the_limit_is_refused(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    pack, unpack = CODECS[name]
    allowed, bomb = pack(bytes(100_000)), pack(bytes(100_001))
    if name == "snappy":
        bomb = aiokafka.codec.snappy_encode(bytes(100_001), xerial_compatible=False)
    monkeypatch.setattr(aiokafka.codec, "cramjam", codecs.decompressors(limit=100_000))
    assert unpack(allowed) == bytes(100_000)
    with pytest.raises(TooLarge):
        unpack(bomb)


def test_gzip_over_the_limit_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(codecs, "MAX_UNPACKED_BYTES", 100_000)
    assert aiokafka.codec.gzip_decode(gzip.compress(bytes(100_000))) == bytes(100_000)
    with pytest.raises(TooLarge):
        aiokafka.codec.gzip_decode(gzip.compress(bytes(100_001)))


def test_absent_codec_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    found = codecs._optional
    monkeypatch.setattr(codecs, "_optional", lambda name: None if "zstd" in name else found(name))
    packed = aiokafka.codec.lz4_encode(b"text")
    install_codecs()
    assert aiokafka.codec.lz4_decode(packed) == b"text"
    with pytest.raises(UnsupportedCodecError, match="backports.zstd"):
        aiokafka.codec.zstd_decode(b"frame")


@pytest.mark.parametrize("pack", SNAPPY.values(), ids=list(SNAPPY))
@pytest.mark.parametrize("unpacker", SNAPPIES.values(), ids=list(SNAPPIES))
def test_snappy_is_read_whoever_wrote_it(
    pack: Callable[[bytes], bytes], unpacker: Snappy, text: Callable[[int], bytes]
) -> None:
    for size in (0, *SIZES):
        content = text(size)
        assert unpacker.decompress(pack(content), LIMIT) == content


@pytest.mark.parametrize("snappy", SNAPPIES.values(), ids=list(SNAPPIES))
@pytest.mark.parametrize(
    ("block", "content"),
    [
        (b"\x00", b""),
        (b"\x03\x08abc", b"abc"),
        (b"\x0a\x04ab\x11\x02", b"ababababab"),  # short copy, overlapping what it writes
        (b"\x06\x08abc\x0a\x03\x00", b"abcabc"),  # copy with a distance of two bytes
        (b"\x06\x08abc\x0b\x03\x00\x00\x00", b"abcabc"),  # of four bytes
        (b"\x03\xf0\x02abc", b"abc"),  # literal whose length follows in one byte
        (b"\x03\xf4\x02\x00abc", b"abc"),  # in two bytes
    ],
)
def test_snappy_knows_every_element(snappy: Snappy, block: bytes, content: bytes) -> None:
    assert snappy.decompress(block, LIMIT) == content


@pytest.mark.parametrize("snappy", SNAPPIES.values(), ids=list(SNAPPIES))
@pytest.mark.parametrize(
    "block",
    [
        b"",
        b"\x80",
        b"\xff\xff\xff\xff\xff\xff",
        b"\x03",
        b"\x04\x08abc",  # announces more than there is
        b"\x02\x08abc",  # announces less
        b"\x03\x08ab",  # literal beyond the end
        b"\x06\x08abc\x0a\x00\x00",  # copy from no distance
        b"\x06\x08abc\x0a\x04\x00",  # copy from before the start
        b"\x06\x08abc\x0a\x03",  # half an element
        b"\x06\x08abc\x09",
    ],
)
def test_damaged_snappy_is_refused(snappy: Snappy, block: bytes) -> None:
    with pytest.raises(CorruptBlock):
        snappy.decompress(block, LIMIT)


def test_random_damage_never_surprises(text: Callable[[int], bytes]) -> None:
    """Any block gives bytes or one of the two errors, and the same from either implementation."""
    seed = secrets.randbits(32)
    print(f"seed {seed}")
    chance = random.Random(seed)
    good = [*SNAPPY.values()][-1](text(3_000))
    for _ in range(2_000):
        block = bytearray(good[: chance.randrange(1, len(good) + 1)])
        for _ in range(chance.randrange(3)):
            block[chance.randrange(len(block))] = chance.randrange(256)
        outcomes = {_outcome(snappy, bytes(block)) for snappy in SNAPPIES.values()}
        assert len(outcomes) == 1


def _outcome(snappy: Snappy, block: bytes) -> bytes | str:
    try:
        return snappy.decompress(block, LIMIT)
    except (CorruptBlock, TooLarge):
        return "refused"


def test_optional_modules_are_those_of_the_dependencies() -> None:
    for name in ("lz4.frame", "backports.zstd"):
        assert isinstance(codecs._optional(name), ModuleType)
    assert codecs._optional("no_such_module") is None
