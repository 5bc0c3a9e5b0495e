"""What the stage of a round sends, where it divides events among lanes."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import msgspec
from aiokafka import TopicPartition
from aiokafka.admin import AIOKafkaAdminClient

from relevanced.daemon.config import Config
from relevanced.daemon.events import Mark, read_sent
from relevanced.daemon.lane import Chain, log_name
from relevanced.daemon.storage import lane_topics, stage_group
from tests.chaos.traffic import Places, read_logs
from tests.oracle import Record

BEGUN = "sources are sent"


class StageTopic:
    """The topic that the stage writes, and how far it is with the input topics."""

    def __init__(self, bootstrap: str, config: Config, places: Places) -> None:
        (self.name,) = lane_topics(config)
        self._bootstrap, self._group, self._inputs = bootstrap, stage_group(config), places
        self._places = [TopicPartition(self.name, lane) for lane in range(places.lanes)]

    async def records(self) -> list[Record]:
        """All that it has now."""
        return await read_logs(self._bootstrap, self._places)

    async def ends(self) -> dict[int, dict[str, int]]:
        """Lane → the end of its log."""
        found = Counter(record.partition for record in await self.records())
        return {lane: {self.name: found[lane]} for lane in range(self._inputs.lanes)}

    async def committed(self) -> dict[str, int]:
        """Log of the inputs → how far all of it is sent."""
        admin = AIOKafkaAdminClient(bootstrap_servers=self._bootstrap)
        await admin.start()
        try:
            found = await admin.list_consumer_group_offsets(self._group)
        finally:
            await admin.close()
        return {log_name(*place): at.offset for place, at in found.items() if place[0] != self.name}

    def starts(self, directory: Path) -> dict[str, int]:
        """Log of the inputs → where the stage began, as the logs of its workers say: the first
        that begins commits it, and says so before it sends anything."""
        starts: dict[str, int] = {}
        for path in directory.glob("*.log"):
            for line in path.read_text().splitlines():
                if f'"{BEGUN}"' in line:
                    for place, offset in msgspec.json.decode(line)["sources"].items():
                        log = place.replace("[", "/").removesuffix("]")
                        starts[log] = min(offset, starts.get(log, offset))
        return starts


def ends_of(records: Iterable[Record], places: Places) -> dict[int, dict[str, int]]:
    """Lane → the ends of its logs."""
    ends = {lane: dict.fromkeys(places.logs, 0) for lane in range(places.lanes)}
    for record in records:
        ends[record.partition][record.topic] = record.offset + 1
    return ends


def verdicts(sent: Sequence[Record]) -> Counter[str]:
    """What lanes make of these messages."""
    chains: Mapping[int, Chain] = {record.partition: Chain() for record in sent}
    for record in sent:
        found = read_sent(record.value)
        chains[record.partition].takes(found.of if isinstance(found, Mark) else found)
    return sum((chain.outcomes for chain in chains.values()), Counter[str]())
