"""What was seen of an alert, and when: the log of a trial."""

import threading
import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from enum import StrEnum

Labels = Mapping[str, str]
Identity = tuple[tuple[str, str], ...]

INSTALLATION = ("cluster", "namespace", "job")
UNINTERESTING = frozenset({*INSTALLATION, "alertname", "kind", "severity", "view"})


class Step(StrEnum):
    """What happens to an alert, in this order."""

    PENDING = "pending"
    FIRING = "firing"
    HELD_BACK = "held back"
    """Alertmanager inhibits it."""
    NOTIFIED = "notified"
    RESOLVED = "resolved"
    WITHDRAWN = "withdrawn"
    """Alertmanager notifies that it is over."""


@dataclass(frozen=True)
class Sighting:
    """One step of one alert. `at_s` is the clock; `where` the receiver of a notification."""

    at_s: float
    step: Step
    labels: Labels
    text: str = ""
    """Summary and description."""
    where: str = ""

    @property
    def name(self) -> str:
        return self.labels["alertname"]

    @property
    def identity(self) -> Identity:
        return tuple(sorted(self.labels.items()))

    @property
    def installation(self) -> tuple[str, ...]:
        return tuple(self.labels.get(name, "") for name in INSTALLATION)

    def told(self) -> str:
        """One line of the log, without the time."""
        rest = {key: value for key, value in self.labels.items() if key not in UNINTERESTING}
        labels = ",".join(f"{key}={value}" for key, value in sorted(rest.items()))
        step = f"{self.step} {self.where}".strip()
        return f"{step:<16} {self.name}{{{labels}}} {self.text}".rstrip()


@dataclass
class Log:
    """All sightings of a trial in order of time; threads add to it."""

    tell: Callable[[Sighting], None] = lambda sighting: None
    sightings: list[Sighting] = field(default_factory=list)
    _seen: dict[Identity, set[tuple[Step, str]]] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def add(self, step: Step, labels: Labels, text: str = "", where: str = "") -> None:
        """Note a step, unless the alert is there already."""
        with self._lock:
            sighting = Sighting(time.time(), step, dict(labels), text, where)
            seen = self._seen.setdefault(sighting.identity, set())
            if (step, where) in seen:
                return
            seen.add((step, where))
            if step is Step.RESOLVED:
                seen.clear()
            self.sightings.append(sighting)
        if step is not Step.PENDING:
            self.tell(sighting)

    def firing(self) -> list[Labels]:
        """The labels of the alerts that fire now."""
        with self._lock:
            return [
                dict(identity)
                for identity, seen in self._seen.items()
                if any(step is Step.FIRING for step, _ in seen)
            ]

    def of(self, installations: Collection[tuple[str, ...]]) -> list[Sighting]:
        with self._lock:
            return [each for each in self.sightings if each.installation in installations]
