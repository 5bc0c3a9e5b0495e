"""How many files, connections among them, this process may have open."""

import resource
from contextlib import suppress
from typing import Final

ENOUGH: Final = 65_536
"""Containers often allow a thousand million; programs that a process starts inherit the bound, and
some of them reserve memory for each."""


def raise_bound() -> None:
    """Raise the soft bound to the hard one, which is the system's own, or to ENOUGH.

    The soft bound of 1024 is a custom for programs that use select(), and this is none. A system
    that does not permit it loses nothing but room.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with suppress(OSError, ValueError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (raised(soft, hard), hard))


def raised(soft: int, hard: int) -> int:
    """The soft bound to set: at least the present one."""
    if soft == resource.RLIM_INFINITY:
        return soft
    return max(soft, ENOUGH if hard == resource.RLIM_INFINITY else min(hard, ENOUGH))
