"""A mount that does not answer, as one of a network does whose server is gone."""

import ctypes
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import pytest

_FORCE_AND_DETACH: Final = 1 | 2


@contextmanager
def silent_mount(path: Path) -> Iterator[None]:
    """While this lasts every call on the directory waits; afterwards it is as before. Skips where
    the machine allows no mount."""
    libc = ctypes.CDLL(None, use_errno=True)
    try:
        served = os.open("/dev/fuse", os.O_RDWR | os.O_CLOEXEC)  # nobody ever reads what it asks
    except OSError as error:
        pytest.skip(f"no FUSE: {error}")
    options = f"fd={served},rootmode=40000,user_id={os.getuid()},group_id={os.getgid()}"
    try:
        if libc.mount(b"silent", os.fsencode(path), b"fuse", 0, options.encode()):
            pytest.skip(f"no mount: {os.strerror(ctypes.get_errno())}")
        try:
            yield
        finally:
            libc.umount2(os.fsencode(path), _FORCE_AND_DETACH)
    finally:
        os.close(served)
