"""How a lane names the logs that it reads, and which of them an impression came from. Pure.

Where lane n is partition n of every topic, a log has the name of its topic. Where one lane has all
partitions, it is named by both, with a slash between them: names of topics have none.
"""

from bisect import bisect_right


def log_name(topic: str, partition: int) -> str:
    """The name of a log in a lane that has all partitions.

    >>> log_name("clicks", 3)
    'clicks/3'
    """
    return f"{topic}/{partition}"


def topic_of(log: str) -> str:
    """The topic of a log."""
    return log.partition("/")[0]


def place_of(lane: int, log: str) -> tuple[str, int]:
    """The topic and the partition of a log of this lane.

    >>> place_of(0, "clicks/3"), place_of(2, "clicks")
    (('clicks', 3), ('clicks', 2))
    """
    topic, _, partition = log.partition("/")
    return topic, int(partition) if partition else lane


class SlotOrigins:
    """The log that each slot came from: slots count up, and a batch brings many of one log."""

    def __init__(self) -> None:
        self._first: list[int] = []
        self._logs: list[str] = []

    def note(self, next_slot: int, log: str) -> None:
        """Note that the slots from here on come from this log, up to the next note."""
        if self._first and self._first[-1] == next_slot:
            self._logs[-1] = log
        elif not self._logs or self._logs[-1] != log:
            self._first.append(next_slot)
            self._logs.append(log)

    def of(self, slot: int) -> str | None:
        """The log that a slot came from; None where that is not known."""
        at = bisect_right(self._first, slot)
        return self._logs[at - 1] if at else None

    def forget(self, before: int) -> None:
        """Forget the slots below this one."""
        passed = max(bisect_right(self._first, before) - 1, 0)
        del self._first[:passed], self._logs[:passed]
