"""The job of all peers: of each record its segment and one number, to be averaged by the minute.

No join: a click counts on its own, by its rank, and an impression by the length of its list. Runs
in a peer's environment, so it imports nothing of the product.
"""

import os
import time
from typing import Any

import orjson

PANE_S = 60
TELL_EVERY = 1_000


class Progress:
    """Prints how many records were seen and what processor time this process has used."""

    def __init__(self) -> None:
        self.seen = 0

    def note(self) -> None:
        """One more."""
        self.seen += 1
        if self.seen % TELL_EVERY == 0:
            # Past the object that some of them put in the place of the standard output.
            os.write(1, f"progress {self.seen} {time.process_time():.6f}.\n".encode())


def decode(value: bytes) -> dict[str, Any]:
    """The record."""
    event: dict[str, Any] = orjson.loads(value)
    return event


def segment_of(event: dict[str, Any]) -> str:
    """The country of an impression, the kind of feedback."""
    if event["type"] == "impression":
        return str(event["attributes"]["country"])
    return str(event["kind"])


def number_of(event: dict[str, Any]) -> float:
    """How full the list is, or the reciprocal rank of what was clicked."""
    if event["type"] == "impression":
        return len(event["items"]) / 10
    return 1.0 / float(event["rank"])
