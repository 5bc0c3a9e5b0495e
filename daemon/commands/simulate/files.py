"""The files that `relevanced simulate` reads and writes beside the events."""

from pathlib import Path

import click

from .broken_queries import MOST_BYTES, BrokenQueries, parse_queries
from .judged_set import judged_set
from .traffic import Traffic


def broken_queries(
    path: str | None, share: float | None, backfill: int, after: int | None
) -> BrokenQueries | None:
    """The queries of a file, as they break. Raises UsageError and BadParameter."""
    if path is None:
        if share is not None or after is not None:
            raise click.UsageError("--break-share and --break-after: only with --break-queries")
        return None
    known = {query.text for query in Traffic().world.queries}
    try:
        with open(path, "rb") as file:
            found = file.read(MOST_BYTES + 1)
        if len(found) > MOST_BYTES:
            raise ValueError(f"must have at most {MOST_BYTES:,} bytes")
        keys = parse_queries(found.decode("utf-8-sig"), known)
    except UnicodeDecodeError as error:
        raise click.BadParameter(f"--break-queries {path}: must be UTF-8: {error}") from error
    except (OSError, ValueError) as error:
        raise click.BadParameter(f"--break-queries {path}: {error}") from error
    return BrokenQueries(keys, (backfill + (after or 0)) / 1000, 1.0 if share is None else share)


def write_judgements(path: str | None, traffic: Traffic) -> None:
    """Write the judgements of the simulated search. Raises BadParameter."""
    if path is None:
        return
    try:
        Path(path).write_bytes(judged_set(traffic.world))
    except OSError as error:
        raise click.BadParameter(f"--judgements {path}: {error.strerror}") from error
