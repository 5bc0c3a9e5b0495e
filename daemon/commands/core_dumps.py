"""Core dumps: none, because the memory of this process contains passwords."""

import resource
from contextlib import suppress


def turn_off() -> None:
    """Set the soft limit of core files to 0, which systemd-coredump respects too.

    The hard limit stays: `prlimit --pid PID --core=unlimited` allows a dump for a search for a
    fault.
    """
    _, hard = resource.getrlimit(resource.RLIMIT_CORE)
    with suppress(OSError, ValueError):
        resource.setrlimit(resource.RLIMIT_CORE, (0, hard))
