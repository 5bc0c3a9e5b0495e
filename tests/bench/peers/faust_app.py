"""The peers' job in faust-streaming: a table in memory and its changelog, no web server.

Changes of the table are batched for 20 ms; by default each would be sent on its own.
"""

import os

import faust
from job import PANE_S, Progress, decode, number_of, segment_of

app = faust.App(
    os.environ["BENCH_GROUP"],
    broker=f"kafka://{os.environ['BENCH_BROKER']}",
    store="memory://",
    datadir=os.environ["BENCH_FOLDER"],
    topic_partitions=int(os.environ["BENCH_PARTITIONS"]),
    consumer_auto_offset_reset="earliest",
    web_enabled=False,
    producer_linger_ms=20,
)
events = app.topic(os.environ["BENCH_TOPIC"], value_type=bytes, value_serializer="raw")
sums = app.Table("sums", default=lambda: (0.0, 0)).tumbling(PANE_S, expires=PANE_S)
progress = Progress()


@app.agent(events)
async def average(stream: faust.Stream) -> None:
    """Keep sum and count of each segment and minute, by the time of the record."""
    async for value in stream:
        event = decode(value)
        segment = segment_of(event)
        total, count = sums[segment].value()
        sums[segment] = (total + number_of(event), count + 1)
        progress.note()


if __name__ == "__main__":
    app.main()
