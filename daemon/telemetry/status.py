"""The status of a process: the values of its own series that the API reports too. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class ProcessStatus:
    """What this process does, at one instant. A process that reads no events leaves its work at 0.

    Read from the same objects that `/metrics` is rendered from, so that the two always agree.
    """

    lag_records: Mapping[tuple[str, int], int]
    """(topic, partition) → records that have not been read yet"""
    owned_lanes: int
    stopped_lanes: tuple[int, ...]
    """Lanes that cannot go on without help."""
    commits: Mapping[str, int]
    """Outcome → commits"""
    batches: int
    batches_s: float
    """Time of all batches together."""
    last_poll_s: float
    """Unix time when Kafka last answered; 0 is never."""
    open_impressions: int
    waiting_feedback: int
    snapshot_duration_s: float
    """Time that the last snapshot took; 0 before the first."""
    snapshot_errors: int
    runbook: str
    """Where people on call read the runbook; empty where that is not set."""
