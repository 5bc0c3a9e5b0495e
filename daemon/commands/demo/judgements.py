"""The judgements of the demo: a directory of its own, with one file that is in force since before
the simulated history began."""

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from ...judgements import directory
from ...panes import HOUR_MS, pane_start
from ..simulate.judged_set import judged_set
from ..simulate.world import World

NAME: Final = "demo.csv"


@contextmanager
def judgements_of(world: World, history_ms: int) -> Iterator[Path]:
    """The directory, for traffic that begins then; it is removed at the end."""
    with tempfile.TemporaryDirectory(prefix="relevanced-demo-") as folder:
        source, target = Path(folder) / NAME, Path(folder) / "judgements"
        source.write_bytes(judged_set(world))
        target.mkdir()
        directory.add(target, source, pane_start(history_ms, HOUR_MS), 0)
        yield target
