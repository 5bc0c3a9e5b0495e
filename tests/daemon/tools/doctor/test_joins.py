"""Last touch compared with ids: what the guide says of public logs, and of a sample."""

from pathlib import Path

from tests.bench.last_touch import START_MS, compared, public, row

ROOT = Path(__file__).parents[4]


def test_the_guide_has_what_last_touch_joins_on_public_logs(shared: Path) -> None:
    guide = (ROOT / "deploy" / "guide" / "events.md").read_text()
    for name, found in public(shared).items():
        assert row(name, found) in guide


def events(*clicks: tuple[int, str, str]) -> list[dict[str, object]]:
    """Two lists of one visitor, a second apart, and clicks (second, list, item)."""
    lists = [("q1", 0, ["a", "b"]), ("q2", 1, ["b", "c"])]
    base = {"user_id": "v"}
    shown = [
        {**base, "type": "impression", "impression_id": of, "items": items}
        | {"timestamp": START_MS + 1000 * at_s}
        for of, at_s, items in lists
    ]
    reactions = [
        {**base, "type": "feedback", "kind": "click", "impression_id": of, "item": item}
        | {"timestamp": START_MS + 1000 * at_s}
        for at_s, of, item in clicks
    ]
    return [*shown, *reactions]


def test_equal_joins_others_and_more_are_told_apart() -> None:
    clicks = [(2, "q1", "a"), (3, "q1", "b"), (4, "q2", "c"), (5, "lost", "c"), (6, "q2", "z")]
    found = compared(iter(events(*clicks)), "")
    assert (found.by_id, found.same, found.others, found.more) == (3, 2, 1, 1)
    assert found.scores["P@1"] == (0.5, 1.0) and found.changes["P@1"] == 1.0
    assert found.finding().words.startswith(
        "66.7 % of 3 pieces of feedback that join by id join the same list, 33.3 % another one,"
        " 0.0 % none; 1 join by last touch alone; so P@1 +100.00 %"
    )
