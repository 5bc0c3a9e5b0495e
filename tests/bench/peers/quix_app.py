"""The peers' job in quixstreams: its tumbling window and its store, with default settings.

The keys of the records are the segments already, so no record moves to another partition.
"""

import os
from datetime import timedelta

from job import PANE_S, Progress, decode, number_of
from quixstreams import Application
from quixstreams.dataframe.windows.aggregations import Mean

progress = Progress()


def read(value: bytes) -> float:
    """The number of one record."""
    progress.note()
    return number_of(decode(value))


app = Application(
    broker_address=os.environ["BENCH_BROKER"],
    consumer_group=os.environ["BENCH_GROUP"],
    auto_offset_reset="earliest",
    state_dir=os.environ["BENCH_FOLDER"],
    loglevel="WARNING",
)
topic = app.topic(os.environ["BENCH_TOPIC"], value_deserializer="bytes", key_deserializer="str")
means = app.dataframe(topic).apply(read).tumbling_window(timedelta(seconds=PANE_S)).agg(mean=Mean())
means.final()

if __name__ == "__main__":
    app.run()
