"""What this process may do by the operating system: no core dumps, and many open files."""

import resource
from contextlib import suppress
from typing import Final


def turn_off_core_dumps() -> None:
    """Set the soft limit of core files to 0, which systemd-coredump respects too: the memory of
    this process contains passwords.

    The hard limit stays: `prlimit --pid PID --core=unlimited` allows a dump for a search for a
    fault.
    """
    _, hard = resource.getrlimit(resource.RLIMIT_CORE)
    with suppress(OSError, ValueError):
        resource.setrlimit(resource.RLIMIT_CORE, (0, hard))


ENOUGH: Final = 65_536
"""Containers often allow a thousand million; programs that a process starts inherit the bound, and
some of them reserve memory for each."""


def raise_bound_of_open_files() -> None:
    """Raise the soft bound to the hard one, which is the system's own, or to ENOUGH.

    The soft bound of 1024 is a custom for programs that use select(), and this is none. A system
    that does not permit it loses nothing but room.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with suppress(OSError, ValueError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (raised_bound(soft, hard), hard))


def raised_bound(soft: int, hard: int) -> int:
    """The soft bound to set: at least the present one."""
    if soft == resource.RLIM_INFINITY:
        return soft
    return max(soft, ENOUGH if hard == resource.RLIM_INFINITY else min(hard, ENOUGH))
