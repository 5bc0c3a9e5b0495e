"""The job of all peers: the average of one number per segment and minute.

There is no join: feedback counts by its rank, and an impression by the length of its list. Runs in
the environment of a peer, so it imports nothing of the product.
"""

import os
import time
from typing import Any

import orjson

PANE_S = 60
PRINT_EVERY = 1_000


class Progress:
    """Prints the number of records read and the CPU time of this process."""

    def __init__(self) -> None:
        self.seen = 0

    def note(self) -> None:
        """Count one more record."""
        self.seen += 1
        if self.seen % PRINT_EVERY == 0:
            # Bypasses sys.stdout, which some peers replace.
            os.write(1, f"progress {self.seen} {time.process_time():.6f}.\n".encode())


def decode(value: bytes) -> dict[str, Any]:
    """The event in a record."""
    event: dict[str, Any] = orjson.loads(value)
    return event


def segment_of(event: dict[str, Any]) -> str:
    """The country of an impression, the kind of feedback."""
    if event["type"] == "impression":
        return str(event["attributes"]["country"])
    return str(event["kind"])


def number_of(event: dict[str, Any]) -> float:
    """The share of ten results in the list, or the reciprocal rank of the feedback."""
    if event["type"] == "impression":
        return len(event["items"]) / 10
    return 1.0 / float(event["rank"])
