"""The faults of a round, their times and durations: a pure function of the seed.

Rounds with consecutive seeds go through all kinds of faults in turn, and add random ones.
"""

from dataclasses import dataclass
from random import Random
from typing import Final

from relevanced.daemon.config import ONE, REKEY

SESSION_S: Final = 6
"""Session timeout of the workers; faults are longer or shorter than this."""
LONG: Final = (SESSION_S + 1.0, SESSION_S + 3.0)
SHORT: Final = (0.2, 2.0)
SPELL: Final = (2.0, 5.0)
HANG: Final = (16.0, 18.0)
"""Beyond the patience with files."""
SLOTS: Final = 5
LAST_START_S: Final = 5.0

KINDS: Final = {
    # kind → range of its duration in seconds
    "worker killed": SHORT,
    "worker killed before its commit, which arrives late": SHORT,
    "worker killed between staging and commit": SHORT,
    "worker killed after sending its commit": SHORT,
    "worker killed after the answer to its commit": SHORT,
    "worker killed before its offsets reach the group": SHORT,
    "worker killed after sending its claim": SHORT,
    "worker killed after the answer to its claim": SHORT,
    "worker killed while it joins the group": SHORT,
    "worker frozen briefly": SHORT,
    "worker frozen beyond its session": LONG,
    "worker leaves": SHORT,
    "worker killed, then with another layout": SHORT,
    "worker leaves, then with another layout": SHORT,
    "layout put in force by an operator": SHORT,
    "worker killed after sending the change to a new layout": SHORT,
    "worker killed before the change to a new layout, which arrives late": SHORT,
    "worker joins": SHORT,
    "stray worker with another redis": LONG,
    "judgements listed": SHORT,
    "classes listed": SHORT,
    "directory of judgements hangs": HANG,
    "all workers away beyond their sessions": LONG,
    "worker's clock stepped": SPELL,
    "broker killed": SHORT,
    "broker away beyond the sessions": LONG,
    "broker frozen": SPELL,
    "kafka slow": SPELL,
    "kafka connections cut": SPELL,
    "kafka answers lost": SPELL,
    "kafka half open": LONG,
    "kafka refuses connections": LONG,
    "redis killed": SHORT,
    "redis frozen": LONG,
    "redis out of memory": SPELL,
    "redis forgets scripts": SHORT,
    "redis log cut": SHORT,
    "redis log cut near its end": SHORT,
    "redis restored from an older copy": SPELL,
    "redis emptied": SHORT,
    "redis loses the head of a lane and the list of its keys": SHORT,
    "redis loses keys": SHORT,
    "redis loses keys while nobody has the lanes": SHORT,
    "redis replica promoted": SHORT,
    "redis replica promoted while the master lives on": SPELL,
    "redis slow": SPELL,
    "redis connections cut": SPELL,
    "redis answers lost": SPELL,
    "redis half open": LONG,
    "redis requests vanish": LONG,
    "commit delivered twice, once late": SPELL,
}

ON_CLUSTER: Final = {
    "slots of lanes moved": SPELL,
    "master of a lane killed, its replica takes over": LONG,
}
"""Of a round on a Redis Cluster, which has both."""
BESIDE: Final = (
    "worker killed",
    "worker killed before its offsets reach the group",
    "worker frozen beyond its session",
    "worker leaves",
    "worker leaves, then with another layout",
    "layout put in force by an operator",
    "all workers away beyond their sessions",
    "broker killed",
    "kafka answers lost",
    "stray worker with another redis",
)
"""What may strike beside: nothing that needs the proxies before Redis, or its one master."""
CLUSTER_EVERY: Final = 12
"""Every so many rounds one is on a cluster."""
OF_REGISTRY: Final = {"schema registry answers with what is no schema": SPELL}
"""Of a round whose records name schemas of a registry, beside all other faults."""
REGISTRY_EVERY: Final = 6
"""Every so many rounds one is such a round, and none of these is on a cluster."""

OF_STAGE: Final = {
    "what a stage sends is refused": SPELL,
    "what a stage sent arrives again, late": SPELL,
    "worker killed before what its stage sends arrives, late": LONG,
}
"""Of a round in which a stage divides events among lanes: the first, another one, and beside them
any fault."""
EVERY: Final = {**KINDS, **ON_CLUSTER, **OF_REGISTRY, **OF_STAGE}
MODES: Final = ("partition", ONE, REKEY)
"""What `kafka.lanes` says: each once in so many rounds. Records that name schemas know no stage."""


@dataclass(frozen=True)
class Fault:
    """One fault."""

    kind: str
    at_s: float
    lasts_s: float
    worker: int
    """The slot of the worker that it affects, if it affects one."""
    fraction: float
    """Random number in 0…1: where a file is cut, how far a clock is stepped …"""

    def __str__(self) -> str:
        worker = f" worker {self.worker}" if "redis" not in self.kind else ""
        when = f"{self.at_s:.1f} s: {self.kind}{worker}, {self.lasts_s:.1f} s"
        return f"{when}, fraction {self.fraction:.4f}"


@dataclass(frozen=True)
class Plan:
    """Setup and faults of one round."""

    seed: int
    topics: int
    workers: int
    start: str
    serves: bool
    """Whether the first worker is also an exporter."""
    fsync: str
    on_cluster: bool
    registered: bool
    """Whether the records name schemas of a registry."""
    faults: tuple[Fault, ...]
    lanes: str
    """What `kafka.lanes` says."""


def plan(seed: int) -> Plan:
    """The plan of the round with this seed."""
    random = Random(f"chaos {seed}")
    kinds = list(KINDS)
    Random("the order of kinds").shuffle(kinds)
    on_cluster = seed % CLUSTER_EVERY == CLUSTER_EVERY - 1
    registered = seed % REGISTRY_EVERY == 3
    turn = seed - seed // CLUSTER_EVERY
    selected = [kinds[(2 * turn + n) % len(kinds)] for n in range(2)]
    if on_cluster:
        kinds, selected = list(BESIDE), list(ON_CLUSTER)
    if registered:
        selected += random.choices(list(OF_REGISTRY), k=3)
    lanes = Random(f"modes {seed // len(MODES)}").sample(MODES, len(MODES))[seed % len(MODES)]
    if registered and lanes == REKEY:
        lanes = random.choice(("partition", ONE))
    if lanes == REKEY:
        refused, *others = OF_STAGE
        selected += [refused, random.choice(others)]
    selected += random.choices(kinds, k=random.choice((0, 1, 1, 2)))
    return Plan(
        seed=seed,
        topics=random.choice((1, 2)),
        workers=random.choice((2, 3, 5)),
        start=random.choice(("earliest", "earliest", "latest")),
        serves=random.random() < 0.5,
        fsync=random.choice(("everysec", "always")),
        on_cluster=on_cluster,
        registered=registered,
        faults=tuple(sorted((fault(random, kind) for kind in selected), key=lambda f: f.at_s)),
        lanes=lanes,
    )


def fault(random: Random, kind: str) -> Fault:
    """A fault of this kind at a random time."""
    return Fault(
        kind=kind,
        at_s=random.uniform(0.5, LAST_START_S),
        lasts_s=random.uniform(*EVERY[kind]),
        worker=random.randrange(SLOTS),
        fraction=random.random(),
    )
