"""The names of a lane's keys. Pure.

Keys of a lane, behind its prefix:

    head            hash: token, sequence, offsets, watermarks, counts, idle mark, start, state; and
                    while keys of a former life may be left, the mark `unswept`
    names           hash: segment number → [grouping number, segment]
    open:N          a block of open state (see `blocks`)
    rows:W:START:P  page P of the rows of one pane of window number W
    totals:P        page P of the cumulative totals
    experiment:H    an experiment, and parts of its users (see `experiments`)
    hours:START:P   page P of the rows of an hour that has settled, or is about to
    admitted        values of each grouping that were let in, per topic
    changes         sorted set: key of rows or totals → sequence that wrote it last, for readers;
                    every other key of the lane's state → 0
"""

from hashlib import blake2b
from typing import Final

from ..panes import PaneKey

ADMITTED_KEY: Final = "admitted"
HOURS_PREFIX: Final = "hours:"
"""What the names of the keys of hourly rows begin with."""
EXPERIMENTS_PREFIX: Final = "experiment:"


def page_key(key: PaneKey, page: int) -> str:
    """Name of a page of rows."""
    return f"rows:{key[0]}:{key[1]}:{page}"


def totals_key(page: int) -> str:
    """Name of a page of totals."""
    return f"totals:{page}"


def parse_page_key(key: str) -> tuple[PaneKey | None, int]:
    """(pane, page) of a key that readers follow; the pane is None for totals."""
    kind, *numbers = key.split(":")
    if kind == "totals":
        return None, int(numbers[0])
    return (int(numbers[0]), int(numbers[1])), int(numbers[2])


def block_key(number: int) -> str:
    """Name of a block of open state."""
    return f"open:{number}"


def hour_page_key(start: int, page: int) -> str:
    """Name of a page of the rows of an hour."""
    return f"{HOURS_PREFIX}{start}:{page}"


def parse_hour_page_key(key: str) -> tuple[int, int]:
    """(start of the hour, page)."""
    start, page = key.removeprefix(HOURS_PREFIX).split(":")
    return int(start), int(page)


def experiment_key(name: str) -> str:
    """Name of an experiment's header."""
    return (
        EXPERIMENTS_PREFIX + blake2b(name.encode(errors="surrogatepass"), digest_size=8).hexdigest()
    )


def experiment_users_key(name: str, page: int) -> str:
    """Name of one part of its users."""
    return f"{experiment_key(name)}:users:{page}"
