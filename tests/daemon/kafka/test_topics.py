"""Topics that fit together, and why others do not."""

import pytest

from relevanced.daemon.errors import StartError
from relevanced.daemon.kafka import Division, counts_or_obstacle, require_counts


def test_unequal_counts_name_every_topic_and_the_rule() -> None:
    require_counts({"a": 4, "b": 4}, Division())
    with pytest.raises(StartError, match="a has 4, b has 8.*same record key.*murmur2"):
        require_counts({"a": 4, "b": 8}, Division())


def test_obstacles_of_all_topics_are_named() -> None:
    def topic(name: str, code: int, partitions: int) -> dict[str, object]:
        return {"topic": name, "error_code": code, "partitions": [{}] * partitions}

    assert counts_or_obstacle([topic("a", 0, 3)]) == ({"a": 3}, None)
    counts, obstacle = counts_or_obstacle([topic("a", 0, 3), topic("b", 3, 0), topic("c", 29, 0)])
    assert counts == {"a": 3} and obstacle is not None
    assert obstacle.fault == "not_permitted"
    assert "b does not exist" in obstacle.reason
    assert "permission to describe topic c" in obstacle.reason
