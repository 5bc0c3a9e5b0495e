"""`relevanced` with a decoder that takes long over some records.

    python tests/services/slow_decoder.py SECONDS run --config FILE

It burns so many seconds of CPU, in one piece, over every record that contains STALLING.
"""

import runpy
import sys
import time
from collections.abc import Iterator, Sequence
from typing import Any, Final

STALLING: Final = b"stalling"


class SlowDecoder:
    """A decoder that does what another one does, after a while."""

    def __init__(self, decoder: Any, seconds: float) -> None:
        self._decoder = decoder
        self._seconds = seconds
        self.limits = decoder.limits

    def __call__(self, value: bytes | None, record_time_ms: int | None) -> Any:
        self._burn(value)
        return self._decoder(value, record_time_ms)

    def slices(self, value: bytes | None, record_time_ms: int | None) -> Iterator[Sequence[Any]]:
        self._burn(value)
        return iter(self._decoder.slices(value, record_time_ms))

    def of_record(self, record: Any) -> Any:
        return self(record.value, record.timestamp)

    def slices_of(self, record: Any) -> Iterator[Sequence[Any]]:
        return self.slices(record.value, record.timestamp)

    def plain(self, records: Any, most_bytes: int) -> Any:
        from relevanced.daemon.events import nothing_plain

        return nothing_plain(len(records))

    def is_mapping(self, record: Any) -> bool:
        return False

    def _burn(self, value: bytes | None) -> None:
        if value is not None and STALLING in value:
            until_s = time.thread_time() + self._seconds
            while time.thread_time() < until_s:
                pass


if __name__ == "__main__":
    from relevanced.daemon import events

    fast, burnt_s = events.decoder, float(sys.argv[1])
    events.decoder = lambda name, limits: SlowDecoder(  # type: ignore[assignment,return-value]
        fast(name, limits), burnt_s
    )
    sys.argv = ["relevanced", *sys.argv[2:]]
    runpy.run_module("relevanced.daemon", run_name="__main__")
