"""Files that others write, read while the process runs: a mount may not answer, and a path may name
what never ends.

Only regular files are read, up to a size that is known before their content is. Reading happens in
threads that hold no exit; one that makes no progress is said, and not waited for.
"""

import asyncio
import errno
import io
import os
import stat
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, Final, Generic, TypeVar

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer as Buffer

T = TypeVar("T")

MOST_BYTES: Final = 2**26
"""Of a file of settings, secrets or schemas."""
PATIENCE_S: Final = 15.0
"""Without progress for so long, a reading is given up."""
BRIEF_S: Final = 2.0
"""The same where something else is held until then."""


class NotRead(OSError):
    """A reading that made no progress in time."""

    def __init__(self, path: str, seconds: float) -> None:
        super().__init__(errno.ETIMEDOUT, f"not read for {seconds:.0f} s", path)


class _FileReading(Generic[T]):
    """One reading, in a thread of its own."""

    def __init__(self, read: Callable[[], T], what: str) -> None:
        self._what = what
        self.path: str | None = None
        """The file that is open."""
        self.moved_s = time.monotonic()
        self.result: Future[T] = Future()
        threading.Thread(target=self._run, args=(read,), daemon=True, name="files").start()

    @property
    def seconds(self) -> float:
        """Since it made progress."""
        return time.monotonic() - self.moved_s

    def not_read(self) -> NotRead:
        return NotRead(self.path or self._what, self.seconds)

    def _run(self, read: Callable[[], T]) -> None:
        _OWN.set(self)
        try:
            result = read()
        except BaseException as error:  # raised by who asks for the result
            self.result.set_exception(error)
        else:
            self.result.set_result(result)


_OWN: Final[ContextVar[_FileReading[Any] | None]] = ContextVar("reading", default=None)
"""The reading that this thread is of."""


class _Regular(io.FileIO):
    """A file whose size is bounded. Notes progress."""

    def __init__(self, descriptor: int, path: str, most_bytes: int) -> None:
        """Raises OSError."""
        super().__init__(descriptor, closefd=False)
        self._path, self._most_bytes = path, most_bytes
        self._bound(os.fstat(descriptor).st_size)

    def readinto(self, buffer: "Buffer") -> int | None:
        count = super().readinto(buffer)
        self._bound(self.tell())  # it may grow
        if (own := _OWN.get()) is not None:
            own.moved_s = time.monotonic()
        return count

    def _bound(self, size: int) -> None:
        if size > self._most_bytes:
            rule = f"must have at most {self._most_bytes:,} bytes"
            raise OSError(errno.EFBIG, rule, self._path)


@contextmanager
def opened(path: str | Path, most_bytes: int = MOST_BYTES) -> Iterator[BinaryIO]:
    """A regular file. Raises OSError, also for another kind and for a larger one."""
    own = _OWN.get()
    if own is not None:
        own.path = str(path)
    try:
        # Without O_NONBLOCK a named pipe would hold the thread until somebody writes to it.
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        try:
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                raise OSError(errno.EINVAL, "is no regular file", str(path))
            with io.BufferedReader(_Regular(descriptor, str(path), most_bytes), 2**16) as file:
                yield file
        finally:
            os.close(descriptor)
    finally:
        if own is not None:
            own.path = None


def check(path: str) -> None:
    """Raises OSError for what `content` does not read: for libraries that open the file."""
    with opened(path):
        pass


def content(path: str | Path, most_bytes: int = MOST_BYTES) -> bytes:
    """The bytes of a regular file. Raises OSError."""
    with opened(path, most_bytes) as file:
        return file.read(most_bytes + 1)


def in_time(read: Callable[[], T], what: str, patience_s: float = PATIENCE_S) -> T:
    """What `read` returns or raises. Raises NotRead, of `what` or of the file that is open, without
    progress for `patience_s`."""
    reading = _FileReading(read, what)
    while (left_s := patience_s - reading.seconds) > 0:
        with suppress(TimeoutError):
            reading.result.exception(left_s)
        if reading.result.done():
            return reading.result.result()
    raise reading.not_read()


class FileLooks:
    """Reads the same files again and again, one reading at a time."""

    def __init__(self, what: str, patience_s: float = PATIENCE_S) -> None:
        """`what`: for messages."""
        self._what, self._patience_s = what, patience_s
        self._reading: _FileReading[Any] | None = None

    @property
    def unread(self) -> str:
        """What is not read in time, and for how long; "" where nothing is."""
        reading = self._reading
        if reading is None or reading.result.done() or reading.seconds < self._patience_s:
            return ""
        error = reading.not_read()
        return f"{error.filename}: {error.strerror}"

    async def look(self, read: Callable[[], T]) -> T:
        """What `read` returns or raises. Raises NotRead; the next look waits for that reading
        first."""
        while self._reading is not None:
            await self._ended(self._reading)
        reading = _FileReading(read, self._what)
        self._reading = reading
        await self._ended(reading)
        return reading.result.result()

    async def _ended(self, reading: _FileReading[T]) -> None:
        """Raises NotRead."""
        ended, loop = asyncio.Event(), asyncio.get_running_loop()

        def end(_: Future[T]) -> None:
            with suppress(RuntimeError):  # the loop has ended before
                loop.call_soon_threadsafe(ended.set)

        reading.result.add_done_callback(end)
        while (left_s := self._patience_s - reading.seconds) > 0 and not ended.is_set():
            with suppress(TimeoutError):
                async with asyncio.timeout(left_s):
                    await ended.wait()
        if not reading.result.done():
            raise reading.not_read()
        if self._reading is reading:
            self._reading = None
