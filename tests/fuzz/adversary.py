"""Valid but adversarial events: times at and beyond every limit, few ids, overlapping result
pages, and ranks without items."""

import json
import random
from collections.abc import Sequence
from typing import Final

from tests.oracle import GRACE_MS, OracleConfig, Record, base_pane_ms, closes_ms, expires_ms

IDS: Final[Sequence[object]] = (1, "1", "01", "é", "e\u0301", 10**40, "\u2028", "a\nb", '"', "\x00")
ITEMS: Final[Sequence[object]] = (1, "1", "2", 2, "é", "e\u0301", ",", "\\", "\ufeff", " 1")
RANKS: Final = (None, 1, 2, 3, 12, 13, 2**31, 2**63 - 1, -(2**63) + 1, 0, -1)
FIRST_RANKS: Final = (1, 1, 1, 1, 2, 2, 3, 4, 5, 6, 12, 13, 2**31, 2**63 - 1)
VALUES: Final[Sequence[object]] = ("US", "all", "other", "(none)", ",", "\\", "", "a,b", "\n", None)
START_MS: Final = 1_795_176_000_000
LAST_MS: Final = 10**14 - 1


class Adversary:
    """Generates records for one lane of these topics; new times aim at limits of earlier events."""

    def __init__(self, rng: random.Random, topics: Sequence[str], config: OracleConfig) -> None:
        self.rng, self.topics, self.config = rng, topics, config
        self.now_ms = rng.choice((0, START_MS, START_MS, START_MS + 1))
        self.times_ms = [self.now_ms]
        self.ids = rng.sample(IDS, rng.choice((1, 2, 5)))

    def records(self, events: int) -> list[Record]:
        offsets = dict.fromkeys(self.topics, 0)
        records = []
        for index in range(events):
            if index > events * 0.9 and self.rng.random() < 0.03:
                self.now_ms = self.rng.choice((LAST_MS, LAST_MS - 1, self.now_ms * 2))
            topic, value = self.event()
            records.append(Record(topic, 0, offsets[topic], None, json.dumps(value).encode()))
            offsets[topic] += 1
        return records

    def event(self) -> tuple[str, dict[str, object]]:
        identity = self.rng.choice(self.ids)
        value = {"impression_id": identity, "timestamp": self.time_ms()}
        if self.rng.random() < 0.45:
            # All impressions of an id must be in one topic.
            return self.topics[len(str(identity)) % len(self.topics)], value | self.impression()
        return self.rng.choice(self.topics), value | self.feedback()

    def time_ms(self) -> int:
        """A time near now, or at a limit of an earlier event: where it opens, closes or expires."""
        config, earlier_ms = self.config, self.rng.choice(self.times_ms[-12:])
        self.now_ms += self.rng.choice((0, 0, 1, 100, base_pane_ms(config) // 3))
        limits = (
            closes_ms(earlier_ms, config),
            expires_ms(earlier_ms, config),
            earlier_ms + config.attribution_window_s * 1000,
            earlier_ms + GRACE_MS,
            earlier_ms - GRACE_MS,
            earlier_ms // base_pane_ms(config) * base_pane_ms(config),
            earlier_ms,
        )
        at_ms = self.now_ms
        if self.rng.random() < 0.25:
            at_ms = self.rng.choice(limits) + self.rng.choice((-1, 0, 1))
        at_ms = min(max(at_ms, 0), LAST_MS)
        if at_ms < 10**11:
            at_ms -= at_ms % 1000  # so small a number is read as seconds
        if self.rng.random() < 0.8:
            # Later events continue from here; otherwise only the watermark advances.
            self.now_ms = max(self.now_ms, at_ms)
        self.times_ms.append(at_ms)
        return at_ms // 1000 if at_ms < 10**11 else at_ms

    def impression(self) -> dict[str, object]:
        rng = self.rng
        length = rng.choice((0, 1, 2, 3, 4, 30))
        fields: dict[str, object] = {
            "type": "impression",
            "items": [rng.choice(ITEMS) for _ in range(length)],
            "first_rank": rng.choice(FIRST_RANKS),
            "attributes": {"country": rng.choice(VALUES), "device": rng.choice(VALUES)},
            "experiments": {"ranker": rng.choice(VALUES)},
        }
        if rng.random() < 0.3:
            fields["grades"] = {str(rng.choice(ITEMS)): self.grade() for _ in range(3)}
        return fields

    def feedback(self) -> dict[str, object]:
        rng = self.rng
        rank = rng.choice(RANKS)
        item = rng.choice((None, *ITEMS)) if rank is not None and rank > 0 else rng.choice(ITEMS)
        fields: dict[str, object] = {"type": "feedback", "item": item, "rank": rank}
        fields["kind"] = rng.choice((*self.config.grades, *self.config.grades, "nothing"))
        return fields | ({"grade": self.grade()} if rng.random() < 0.3 else {})

    def grade(self) -> float:
        highest = self.config.highest_grade
        return self.rng.choice((0, -0.0, -(10**300), 1e-300, 0.5, 1, highest))
