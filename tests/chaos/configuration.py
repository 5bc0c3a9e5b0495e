"""What the workers of a round are configured for, and the same for the oracle."""

from collections.abc import Sequence
from typing import Any, Final

import msgspec

from relevanced.daemon.config import REKEY
from tests.chaos.registered import SOURCE
from tests.chaos.traffic import CLASS_FILES, STAGE_PARTITIONS
from tests.oracle import DEFAULT_METRICS, OracleConfig
from tests.oracle_queries import Dated

CONFIG: Final = OracleConfig(
    windows_s=(60, 300, 3600),
    attribution_window_s=60,
    lateness_s=5,
    groupings=(
        ("country",),
        ("device",),
        ("country", "device"),
        ("experiment:ranker-v2",),
        ("traffic",),
    ),
    metric_names=(*DEFAULT_METRICS, "IPS-P@10", "IPS-DCG@10"),
    units={"ranker-v2": "user_id"},
    stratify={"ranker-v2": "country"},
    propensities={"ios": (1.0, 0.6, 0.3, 0.05), "web": (1.0, 0.7, 0.5)},
    surface="device",
    weighted_ranks=10,
    derive={"traffic": Dated(CLASS_FILES)},
)
METRICS: Final = CONFIG.metric_names
WINDOWS: Final = tuple(f"{seconds}s" for seconds in CONFIG.windows_s)
LAYOUTS: Final = (
    ((), ()),
    (("AP@10",), ()),
    (("FirstFeedbackSeconds", "AP@10"), ("600s",)),
    ((), ("600s", "1800s")),
)
"""(metrics, windows) that are counted beside those of the oracle."""
TOML: Final = """
windows = {windows}
[rekey]
topic = "{name}-stage"
partitions = {stage_partitions}
[kafka]
bootstrap_servers = ["{bootstrap}"]
{topics}
lanes = "{lanes}"
idle_after = "{idle_after}"
group_id = "{name}"
start = "{start}"
session_timeout = "{session}s"
max_batch_records = 2000
commit_interval = "100ms"
[redis]
url = "{redis}"
namespace = "{name}"
[attribution]
window = "60s"
lateness = "5s"
[metrics]
names = {metrics}
[propensities]
attribute = "device"
[propensities.tables.ios]
version = "1"
ranks = [1.0, 0.6, 0.3, 0.05]
[propensities.tables.web]
version = "1"
ranks = [1.0, 0.7, 0.5]
[segments]
groupings = {groupings}
discovered_experiments = 0
[queries]
text = "plain"
by = "country"
kept = 3
min_users = 2
examples = 2
[experiments.ranker-v2]
planned_impressions = 1000
metrics = {compared}
primary = "P@1"
stratify_by = "country"
[judgements]
directory = "{judgements}"
[[derive]]
attribute = "traffic"
directory = "{classes}"
"""
REGISTRY: Final = """
[registry]
url = "{url}"
"""


def configuration(
    layout: int, topics: Sequence[str], registry: str | None, **settings: object
) -> str:
    """The text of a configuration with one of `LAYOUTS`. `registry`: its URL, if the records of the
    topics name schemas; else they are of the native format."""
    metrics, windows = LAYOUTS[layout]
    text = TOML.format(
        metrics=_array([*METRICS, *metrics]),
        windows=_array([*WINDOWS, *windows]),
        compared=_array(METRICS),
        groupings=_array(CONFIG.groupings),
        topics="" if registry else f"topics = {_array(topics)}",
        stage_partitions=STAGE_PARTITIONS,
        idle_after="5s" if settings["lanes"] == REKEY else "8s",
        **settings,
    )
    if registry:
        text += REGISTRY.format(url=registry)
        text += "".join(SOURCE.format(topic=topic) for topic in topics)
    return text


def _array(values: Sequence[Any]) -> str:
    return msgspec.json.encode(values).decode()
