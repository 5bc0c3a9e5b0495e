"""Traffic that was recorded with `kcat -J`, in any format, gives the integers of native traffic."""

from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.daemon.tools.simulate.test_shapes import events, integers, replay
from tests.topic_formats import FORMATS, Format

TOPICS = {False: "events", True: "reactions"}


def line(written: Format, event: dict[str, Any]) -> dict[str, Any]:
    is_apart = written.feedback is not None and event["type"] == "feedback"
    headers = [part for name, value in written.headers(event) for part in (name, value.decode())]
    return {
        "topic": TOPICS[is_apart],
        "partition": 0,
        "ts": event["timestamp"],
        "headers": headers,
        "key": event["impression_id"],
        "payload": msgspec.json.encode(written.record(event)).decode(),
    }


@pytest.mark.parametrize("name", FORMATS)
def test_recorded_traffic_of_a_format_equals_native_traffic(name: str, tmp_path: Path) -> None:
    written, simulated = FORMATS[name], events()
    sources = f'[[sources]]\ntopic = "events"\n{written.source}'
    if written.feedback is not None:
        sources += f'[[sources]]\ntopic = "reactions"\n{written.feedback}'
    lines = [line(written, event) for event in simulated]
    mapped = integers(replay(tmp_path / "recorded.jsonl", lines, sources, kcat=True))
    native = [written.native(event) for event in simulated]
    expected = integers(replay(tmp_path / "native.jsonl", native, ""))
    assert expected[2]["feedback_outcomes"]["joined"] > 1000
    rejected = mapped[2]["rejected"]
    assert rejected.pop("not_mapped", 0) == written.not_mapped * len(simulated)
    assert mapped == expected
