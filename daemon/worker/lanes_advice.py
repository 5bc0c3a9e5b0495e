"""Which `lanes` to set where feedback and its impression lie in different partitions, by how much
of a core the traffic takes. Pure."""

from typing import Final

from ..config import ONE, REKEY

JOIN_US: Final = 10.0
"""Processor time of an event beyond its decoding."""


MUCH_OF_A_CORE: Final = 0.7
"""From here on, one process does not surely keep up with a lane of all partitions."""


def cores_of(events_per_s: float, decode_us: float) -> float:
    """How many cores so many events take, by what one takes to decode."""
    return events_per_s * (decode_us + JOIN_US) / 1e6


def meeting_lanes(cores: float) -> str:
    """The lanes in which feedback of any partition meets its impression, where all takes so many
    cores."""
    return ONE if cores < MUCH_OF_A_CORE else REKEY


def meeting_advice(cores: float) -> str:
    """The line to add for them, and why."""
    line = f'add lanes = "{meeting_lanes(cores)}" to [kafka]'
    if cores < MUCH_OF_A_CORE:
        return line
    return f"{line}: this traffic takes {cores:.0%} of a core, which one process would have to do"
