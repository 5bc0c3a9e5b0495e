"""Hashes of passwords, and checks of a password against one: bcrypt by the system's C library,
scrypt by Python's own.

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

from .web_config import BCRYPT, SCRYPT, SCRYPT_BYTES

Crypt: TypeAlias = Callable[[bytes, bytes], bytes | None]
"""(password, hash or salt) → hash; None, or a text that is not a hash, for an unknown algorithm."""

LIBRARIES: Final = ("libcrypt.so.2", "libcrypt.so.1", None)
"""libxcrypt under its two names. None is the process itself: musl has `crypt` in its libc."""
PROBE: Final = b"$2b$04$abcdefghijklmnopqrstuu8gGHls/mdv32ht0pJqcxptBcJ3WwHFi"
"""The hash of `relevanced`."""
_crypt_lock: Final = threading.Lock()
"""`crypt` returns a pointer to one static buffer of the process, which the next call overwrites."""


BCRYPT_BYTES: Final = 72
"""It would ignore what follows."""
_UPPER: Final = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
_BCRYPT_DIGITS: Final = str.maketrans(
    f"{_UPPER}{_UPPER.lower()}0123456789+/", f"./{_UPPER}{_UPPER.lower()}0123456789"
)
"""Its base64 begins with other digits."""


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


def hashed(password: bytes, salt: bytes) -> str:
    """The hash that web configuration files take of a password, wherever the daemon runs."""
    start = "$".join(("", "scrypt", "ln=15,r=8,p=1", _text(salt), ""))
    found = SCRYPT.fullmatch(start + 43 * "A")
    assert found is not None, "a salt has 12 to 48 bytes"
    return start + _text(_scrypt(password, found))


def bcrypt_hashed(password: bytes, salt: bytes, crypt: Crypt) -> str:
    """The same as bcrypt, which exporters of Prometheus take too; `salt` has 16 bytes. Raises
    ValueError."""
    if len(password) > BCRYPT_BYTES or b"\0" in password:
        raise ValueError(f"bcrypt takes {BCRYPT_BYTES} bytes at most, and none that is zero")
    digits = base64.b64encode(salt).decode().rstrip("=").translate(_BCRYPT_DIGITS)
    with _crypt_lock:
        return (crypt(password, f"$2b$10${digits}".encode()) or b"").decode()


def _text(data: bytes) -> str:
    return base64.b64encode(data).decode().rstrip("=")


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
