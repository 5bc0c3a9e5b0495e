"""The traffic of the benchmark: generated from a fixed seed, so that every run reads the same
records.

55 % are impressions of 10 items with two attributes and one experiment; the rest is feedback
(clicks, add-to-cart, purchases) 1 to 60 s later. A record has about 220 bytes. On request,
impressions have a query and a user as well: texts of some 20 characters by Zipf's law, or one that
is new in each.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import product, repeat
from typing import Final, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

SEED: Final = 20_261_121
DEVICES: Final = ("desktop", "ios", "android", "tablet")
VARIANTS: Final = ("control", "treatment")
EXPERIMENT: Final = "ranker-v2"
KINDS: Final = ("click", "add_to_cart", "purchase")
KIND_SHARES: Final = (0.85, 0.10, 0.05)
CATALOGUE: Final = 50_000
"""Number of different items, `sku-00000` and so on: 9 characters."""
ID_LETTERS: Final = 16
NEW_QUERIES: Final = -1
"""In the place of how many queries there are: each impression has one of its own."""
USERS: Final = 1_000_000
WORDS: Final = ("shoes", "red", "running", "laptop", "phone", "garden chair", "tv", "winter coat")

Lists: TypeAlias = NDArray[np.int64]
"""(impressions, items): indices into the catalogue, distinct within a list."""


class Record(NamedTuple):
    """The fields of a Kafka record that the pipeline reads."""

    topic: str
    partition: int
    offset: int
    timestamp: int
    key: bytes
    value: bytes
    headers: tuple[tuple[str, bytes], ...] = ()


@dataclass(frozen=True)
class Traffic:
    """Size and shape of the traffic."""

    records: int = 2_000_000
    partitions: int = 8
    events_per_second: float = 5_000.0
    """Per second of event time: how densely panes are filled, not how fast records are read."""
    countries: int = 28
    """With 4 devices and 2 variants: 1 + 28 + 4 + 28 × 4 + 2 = 147 segments."""
    feedback_per_impression: float = 9 / 11
    feedback_after_ms: tuple[int, int] = (1_000, 60_000)
    items: int = 10
    keyed_by_segment: bool = False
    """Whether the key is the country or the kind instead of the id, for stream processors that
    group by key. Partitions and values are the same."""
    queries: int = 0
    """Distinct queries: the one of rank r is searched for in proportion to 1/r. Or NEW_QUERIES, or
    0, for impressions without a query and a user."""

    @property
    def impressions(self) -> int:
        """The number of impressions among the records."""
        return round(self.records / (1 + self.feedback_per_impression))

    @property
    def span_ms(self) -> int:
        """Event time from the first impression to the last."""
        return round(self.records / self.events_per_second * 1000)


def records(traffic: Traffic, end_ms: int, topic: str = "") -> Iterator[Record]:
    """All records in the order of event time, partitioned by impression; the impressions end at
    `end_ms`."""
    rng = np.random.default_rng(SEED)
    count, feedback = traffic.impressions, traffic.records - traffic.impressions
    impression_ms = np.sort(rng.integers(end_ms - traffic.span_ms, end_ms, count))
    of = rng.integers(0, count, feedback)
    feedback_ms = impression_ms[of] + rng.integers(*traffic.feedback_after_ms, feedback)
    times_ms = np.concatenate([impression_ms, feedback_ms])
    subjects = np.concatenate([np.arange(count), of])
    order = np.argsort(times_ms, kind="stable")
    partitions = rng.integers(0, traffic.partitions, count)
    ids = rng.bytes(count * ID_LETTERS // 2).hex()
    lists = _lists(rng, traffic)
    impression = _impression_writer(rng, traffic, lists)
    reaction = _feedback_writer(rng, traffic, feedback, lists)
    offsets = [0] * traffic.partitions
    columns = zip(order.tolist(), times_ms[order].tolist(), subjects[order].tolist())
    for event, time_ms, subject in columns:
        id_ = ids[subject * ID_LETTERS : (subject + 1) * ID_LETTERS]
        if event < count:
            segment, text = impression(subject, id_, time_ms)
        else:
            segment, text = reaction(event - count, subject, id_, time_ms)
        partition = int(partitions[subject])
        key = (segment if traffic.keyed_by_segment else id_).encode()
        yield Record(topic, partition, offsets[partition], time_ms, key, text.encode("ascii"))
        offsets[partition] += 1


def _lists(rng: np.random.Generator, traffic: Traffic) -> Lists:
    first = rng.integers(0, CATALOGUE, traffic.impressions)
    stride = rng.integers(1, CATALOGUE // traffic.items, traffic.impressions)
    return (first[:, None] + stride[:, None] * np.arange(traffic.items)) % CATALOGUE


def _impression_writer(
    rng: np.random.Generator, traffic: Traffic, lists: Lists
) -> Callable[[int, str, int], tuple[str, str]]:
    quoted = [f'"{item}"' for item in _items()]
    tails = [
        f'],"attributes":{{"country":"C{index}","device":"{device}"}}'
        f',"experiments":{{"{EXPERIMENT}":"{variant}"}}'
        for index, device, variant in product(range(traffic.countries), DEVICES, VARIANTS)
    ]
    shares = 1 / np.arange(1, traffic.countries + 1)
    country = rng.choice(traffic.countries, traffic.impressions, p=shares / shares.sum())
    others = len(DEVICES) * len(VARIANTS)
    tail_of = country * others + rng.integers(0, others, traffic.impressions)
    searches = _searches(traffic)

    def write(index: int, id_: str, time_ms: int) -> tuple[str, str]:
        items = ",".join([quoted[item] for item in lists[index].tolist()])
        return f"C{country[index]}", (
            f'{{"type":"impression","impression_id":"{id_}","timestamp":{time_ms},"items":[{items}'
            f"{tails[tail_of[index]]}{next(searches)}}}"
        )

    return write


def _searches(traffic: Traffic) -> Iterator[str]:
    """The fields of query and user of each impression, in the order of event time: from a generator
    of their own, so that all other fields are the same with and without."""
    if not traffic.queries:
        yield from repeat("")
        return
    rng = np.random.default_rng(SEED)
    users = rng.integers(0, USERS, traffic.impressions).tolist()
    if traffic.queries == NEW_QUERIES:
        ranks = range(traffic.impressions)
    else:
        shares = np.cumsum(1 / np.arange(1, traffic.queries + 1))
        ranks = np.searchsorted(shares, rng.random(traffic.impressions) * shares[-1]).tolist()
    for rank, user in zip(ranks, users, strict=True):
        yield f',"query":"{query_text(rank)}","user_id":"user-{user}"'


def query_text(rank: int) -> str:
    """The query of a rank from 0: 7 to 23 characters, some in upper case as people write."""
    words = f"{WORDS[rank % len(WORDS)]} {WORDS[rank // 7 % len(WORDS)]} {rank}"
    return words.title() if rank % 3 == 0 else words


def _feedback_writer(
    rng: np.random.Generator, traffic: Traffic, count: int, lists: Lists
) -> Callable[[int, int, str, int], tuple[str, str]]:
    items = _items()
    kinds = rng.choice(len(KINDS), count, p=KIND_SHARES)
    ranks = np.minimum(rng.geometric(0.3, count) - 1, traffic.items - 1)

    def write(index: int, impression: int, id_: str, time_ms: int) -> tuple[str, str]:
        rank = int(ranks[index])
        return KINDS[kinds[index]], (
            f'{{"type":"feedback","impression_id":"{id_}","timestamp":{time_ms}'
            f',"kind":"{KINDS[kinds[index]]}","item":"{items[lists[impression, rank]]}"'
            f',"rank":{rank + 1}}}'
        )

    return write


def _items() -> list[str]:
    return [f"sku-{index:05}" for index in range(CATALOGUE)]
