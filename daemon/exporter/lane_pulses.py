"""Which lanes do not move: all views wait for them. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from .mirror import Mirror

STALLED_AFTER_S: Final = 15.0
"""A lane that neither commits nor writes an idle mark for this long has no owner, or its owner
gets no answer from Kafka."""


@dataclass
class _Pulse:
    """When a lane last showed that it has an owner."""

    mark: tuple[str, int, int | None]
    since_s: float


class Pulses:
    """When each lane last moved, by the monotonic clock of this process."""

    def __init__(self) -> None:
        self._pulses: dict[int, _Pulse] = {}

    def stalled(self, mirrors: Mapping[int, Mirror], now_s: float) -> str:
        """Note what moved; returns which lanes do not, or ""."""
        stalled = []
        for lane, mirror in sorted(mirrors.items()):
            if mirror.head is None:
                continue
            mark = (mirror.head.token, mirror.head.sequence, mirror.head.idle_ms)
            pulse = self._pulses.setdefault(lane, _Pulse(mark, now_s))
            if pulse.mark != mark:
                self._pulses[lane] = pulse = _Pulse(mark, now_s)
            if now_s - pulse.since_s > STALLED_AFTER_S:
                stalled.append(f"lane {lane} has not moved for {now_s - pulse.since_s:.0f} s")
        return f"{'; '.join(stalled)}: no owner, or no answer from Kafka" if stalled else ""
