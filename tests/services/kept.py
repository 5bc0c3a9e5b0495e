"""What tests fetch or build once for all runs: kept outside the tree, whole or not at all."""

import fcntl
import os
import tempfile
from collections.abc import Callable
from pathlib import Path


def cache() -> Path:
    """The folder of all that is kept."""
    folder = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "relevanced"
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def kept(name: str, fetched: Callable[[Path], Path]) -> Path:
    """The file or folder of this name. Where it is not there yet, `fetched` makes it in an empty
    folder and says where; a second run waits, and finds it."""
    path = cache() / name
    if path.exists():
        return path
    with (cache() / f"{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not path.exists():
            with tempfile.TemporaryDirectory(dir=cache()) as unfinished:
                fetched(Path(unfinished)).rename(path)
    return path
