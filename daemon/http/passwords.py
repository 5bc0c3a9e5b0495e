"""Checks of a password against a hash: bcrypt by the system's C library, scrypt by Python's own.

A check takes as long as the cost of the hash demands (0.06 s to seconds): call it in a thread.
"""

import base64
import ctypes
import hashlib
import hmac
import re
import threading
from collections.abc import Callable
from typing import Final, TypeAlias

from .password_hashes import BCRYPT, SCRYPT, SCRYPT_BYTES

Crypt: TypeAlias = Callable[[bytes, bytes], bytes | None]
"""(password, hash or salt) → hash; None, or a text that is not a hash, for an unknown algorithm."""

LIBRARIES: Final = ("libcrypt.so.2", "libcrypt.so.1", None)
"""libxcrypt under its two names. None is the process itself: musl has `crypt` in its libc."""
PROBE: Final = b"$2b$04$abcdefghijklmnopqrstuu8gGHls/mdv32ht0pJqcxptBcJ3WwHFi"
"""The hash of `relevanced`."""
_crypt_lock: Final = threading.Lock()
"""`crypt` returns a pointer to one static buffer of the process, which the next call overwrites."""


def find_crypt(libraries: tuple[str | None, ...] = LIBRARIES) -> Crypt | None:
    """The system's `crypt` function if it knows bcrypt, else None."""
    for name in libraries:
        try:
            crypt = ctypes.CDLL(name).crypt
        except (OSError, AttributeError):
            continue
        crypt.argtypes, crypt.restype = (ctypes.c_char_p, ctypes.c_char_p), ctypes.c_char_p
        with _crypt_lock:
            knows_bcrypt = crypt(b"relevanced", PROBE) == PROBE
        if knows_bcrypt:
            found: Crypt = crypt
            return found
    return None


def needs_crypt(hashed: str) -> bool:
    """True for a bcrypt hash, which `matches` can check only with a `crypt`."""
    return BCRYPT.fullmatch(hashed) is not None


def matches(password: bytes, hashed: str, crypt: Crypt | None) -> bool:
    """True if the password belongs to the hash. Compares in constant time."""
    scrypt = SCRYPT.fullmatch(hashed)
    if scrypt is not None:
        return hmac.compare_digest(_scrypt(password, scrypt), _bytes(scrypt[5]))
    if crypt is None:
        return False
    expected = hashed.encode()
    with _crypt_lock:
        computed = crypt(password, expected) or b""
    # A C string ends at its first zero byte: `crypt` would accept any bytes after it.
    return hmac.compare_digest(computed, expected) and b"\0" not in password


def _scrypt(password: bytes, found: re.Match[str]) -> bytes:
    cost_log2, block, parallel = (int(number) for number in found.groups()[:3])
    return hashlib.scrypt(
        password,
        salt=_bytes(found[4]),
        n=1 << cost_log2,
        r=block,
        p=parallel,
        maxmem=2 * SCRYPT_BYTES,
        dklen=32,
    )


def _bytes(text: str) -> bytes:
    return base64.b64decode(text + "=" * (-len(text) % 4))
