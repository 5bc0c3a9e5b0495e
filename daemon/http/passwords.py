"""Whether a password belongs to a hash: bcrypt by the system's C library, scrypt by Python's own.

The one door to that library. A check takes as long as the hash's cost says: meant for a thread.
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
"""(password, hash or salt) → hash; None, or a text that is no hash, where it is not known."""

LIBRARIES: Final = ("libcrypt.so.2", "libcrypt.so.1", None)
"""libxcrypt by its two names; None: what the process holds anyway, as with musl."""
PROBE: Final = b"$2b$04$abcdefghijklmnopqrstuu8gGHls/mdv32ht0pJqcxptBcJ3WwHFi"
"""The hash of `relevanced`."""
_alone: Final = threading.Lock()
"""`crypt` keeps its answer in one place of the process."""


def find_crypt(libraries: tuple[str | None, ...] = LIBRARIES) -> Crypt | None:
    """The system's `crypt`, where it knows bcrypt."""
    for name in libraries:
        try:
            crypt = ctypes.CDLL(name).crypt
        except (OSError, AttributeError):
            continue
        crypt.argtypes, crypt.restype = (ctypes.c_char_p, ctypes.c_char_p), ctypes.c_char_p
        with _alone:
            known = crypt(b"relevanced", PROBE) == PROBE
        if known:
            found: Crypt = crypt
            return found
    return None


def needs_crypt(hashed: str) -> bool:
    """True for a hash that `matches` needs a `crypt` for."""
    return BCRYPT.fullmatch(hashed) is not None


def matches(password: bytes, hashed: str, crypt: Crypt | None) -> bool:
    """Whether the password belongs to the hash, compared in constant time."""
    scrypt = SCRYPT.fullmatch(hashed)
    if scrypt is not None:
        return hmac.compare_digest(_scrypt(password, scrypt), _bytes(scrypt[5]))
    if crypt is None:
        return False
    expected = hashed.encode()
    with _alone:
        computed = crypt(password, expected) or b""
    # A C text ends at its first zero: what follows would count for nothing.
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
