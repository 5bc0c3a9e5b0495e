"""`relevanced propensities`: ranks that are looked at half as often get half the propensity."""

import json
import random
import re
from pathlib import Path

import pytest
from click.testing import CliRunner

from relevanced.daemon.commands.cli import cli
from relevanced.daemon.config import load

LOOKED_AT = (1.0, 0.6, 0.3)
START_MS = 1_795_176_000_000


def events(searches: int, queries: int = 40) -> list[str]:
    """Searches for some queries, their three items in a random order."""
    rng = random.Random(3)
    attractive = {f"d{number}": rng.uniform(0.2, 0.8) for number in range(120)}
    lines = []
    for number in range(searches):
        query = rng.randrange(queries)
        items = [f"d{3 * query + index}" for index in range(3)]
        rng.shuffle(items)
        base = {"impression_id": f"q{number}", "timestamp": START_MS + number}
        shown = {"type": "impression", "query": f"words {query}", "items": items}
        shown["attributes"] = {"device": "web"}
        lines.append(json.dumps({**base, **shown}))
        for item, looked in zip(items, LOOKED_AT):
            if rng.random() < looked * attractive[item]:
                clicked = {"type": "feedback", "kind": "click", "item": item}
                lines += [json.dumps({**base, **clicked})] * rng.choice((1, 2))
    return lines


def test_ranks_are_estimated_from_items_that_experiments_moved(tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl"
    path.write_text("\n".join(["{", *events(20_000)]))
    arguments = ["propensities", str(path), "--depth", "4", "--output", "json"]
    result = CliRunner().invoke(cli, arguments)
    ranks = json.loads(result.stdout)
    assert result.exit_code == 0 and [row["rank"] for row in ranks] == [1, 2, 3, 4]
    for row, true in zip(ranks, LOOKED_AT):
        assert abs(row["propensity"] - true) < 0.03 and row["shared_items"] == 120
        assert row["lower"] <= row["propensity"] <= row["upper"]
        assert row["queries"] == 40
    unknown = dict.fromkeys(("propensity", "stderr", "lower", "upper"))
    assert ranks[3] == {"rank": 4, **unknown, "shared_items": 0, "queries": 0}
    assert "Not known: rank 4 (fewer than 8 queries tell)." in result.stderr
    assert "(the position-based model)" in result.stderr and "trusted." not in result.stderr


def test_only_ranks_within_a_day_are_compared(tmp_path: Path) -> None:
    """What an item is worth may have changed from day to day, and its rank for that."""
    lines = []
    for number, line in enumerate(events(2_000)):
        event = json.loads(line)
        if "items" in event:
            event["items"].sort(reverse=number > 1_500)
        event["timestamp"] += 86_400_000 * (number > 1_500)
        lines.append(json.dumps(event))
    (tmp_path / "events.jsonl").write_text("\n".join(lines))
    result = CliRunner().invoke(cli, ["propensities", str(tmp_path / "events.jsonl")])
    assert result.exit_code == 1
    assert "no item was shown at two ranks for the same query within a day" in result.stderr


def test_no_table_is_written_where_ranks_are_trusted(tmp_path: Path) -> None:
    path, rng = tmp_path / "events.jsonl", random.Random(5)
    lines, worth = list[str](), [rng.random() for _ in range(600)]
    for number in range(30_000):
        query = number % 200
        items = rng.sample(range(3 * query, 3 * query + 3), 3)
        base = {"impression_id": f"q{number}", "timestamp": START_MS + number}
        shown = {"type": "impression", "query": f"{query}", "items": [f"d{n}" for n in items]}
        lines.append(json.dumps(base | shown))
        for item, looked, trusted in zip(items, LOOKED_AT, (0.6, 0.3, 0.1), strict=True):
            if rng.random() < looked * (worth[item] + (1 - worth[item]) * trusted):
                clicked = {"type": "feedback", "kind": "click", "item": f"d{item}"}
                lines.append(json.dumps(base | clicked))
    path.write_text("\n".join(lines))
    arguments = ["propensities", str(path), "--depth", "3"]
    result = CliRunner().invoke(cli, arguments)
    assert result.exit_code == 0 and "Not to be trusted: items that are clicked" in result.stderr
    refused = CliRunner().invoke(cli, [*arguments, "--output", "toml"])
    assert (refused.exit_code, refused.stdout) == (1, "")
    assert CliRunner().invoke(cli, [*arguments, "--output", "toml", "--force"]).stdout


def test_a_table_may_be_pasted_into_the_configuration(tmp_path: Path) -> None:
    path, there = tmp_path / "events.jsonl", tmp_path / "there.jsonl"
    path.write_text("\n".join(events(2_000)))
    there.write_text("\n".join(line.replace('"web"', '"ios"') for line in events(100)))
    arguments = ["propensities", str(path), "--depth", "3", "--output", "toml"]
    result = CliRunner().invoke(cli, [*arguments, str(there), "--surface", "device=web"])
    lines = result.stdout.splitlines()
    assert lines[0] == '# of impressions with "device=web"'
    assert re.fullmatch(r"# standard errors: 0\.0000(, 0\.0\d{3}){2}", lines[1])
    assert lines[2].startswith('[propensities.tables."w')
    head = '[metrics]\nnames = ["IPS-P@3"]\n[propensities]\nattribute = "device"\n'
    surfaces = load(head + result.stdout, {}, "pasted").plan.surfaces
    assert surfaces is not None
    [table] = surfaces.tables
    assert (table.surface, table.version) == ("web", "2026-11-20")
    for found, true in zip(table.values, LOOKED_AT, strict=True):
        assert abs(found - true) < 0.1
    alone = CliRunner().invoke(cli, arguments).stdout.split("\n")[1:]
    assert alone == result.stdout.replace('"web"', '"all"').split("\n")[1:]


def test_a_surface_must_be_an_attribute_and_its_value(tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl"
    path.write_text("")
    result = CliRunner().invoke(cli, ["propensities", str(path), "--surface", "web"])
    assert result.exit_code == 2 and "must be ATTRIBUTE=VALUE" in result.output


ONE_QUERY = events(60, queries=1)
NEVER_CLICKED = [line for line in events(300) if '"click"' not in line]
UNNAMED = [line.replace('"query"', '"asked"') for line in events(300)]
SAME_ORDER = [re.sub(r'"items": \[.*?\]', '"items": ["a", "b"]', line) for line in events(300)]


@pytest.mark.parametrize(
    ("lines", "surface", "reason"),
    [
        ([], (), "there is no impression in these files"),
        (
            events(300),
            ("--surface", "device=ios"),
            'no impression has device=ios: seen "web" 300 t',
        ),
        (events(300), ("--surface", "shop=x"), "no impression has shop=x: seen none 300 times"),
        (UNNAMED, (), "none of 300 impressions has a query"),
        (NEVER_CLICKED, (), "no result was clicked"),
        (ONE_QUERY, (), "a rank needs 8 queries that showed items there and at another rank"),
        (SAME_ORDER + events(300)[-1:], (), "no result was clicked"),
    ],
    ids=("nothing", "no ios", "no attribute", "no query", "no click", "one query", "no order"),
)
@pytest.mark.parametrize("output", ["table", "json", "toml"])
def test_nothing_known_is_said_and_no_table_is_written(
    lines: list[str], surface: tuple[str, ...], reason: str, output: str, tmp_path: Path
) -> None:
    path = tmp_path / "events.jsonl"
    path.write_text("\n".join(lines))
    arguments = ["propensities", str(path), "--depth", "3", "--output", output, *surface]
    result = CliRunner().invoke(cli, arguments)
    assert (result.exit_code, result.stdout) == (1, "")
    assert f"Nothing is known about any rank but the first: {reason}" in result.stderr
    forced = CliRunner().invoke(cli, [*arguments, "--force"])
    assert forced.exit_code == 0 and forced.stdout


def test_a_forced_table_has_the_values_without_an_error(tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl"
    path.write_text("\n".join(ONE_QUERY))
    arguments = ["propensities", str(path), "--depth", "3", "--force", "--output"]
    rows = json.loads(CliRunner().invoke(cli, [*arguments, "json"]).stdout)
    assert rows[1]["propensity"] is not None and rows[1]["stderr"] is None
    toml = CliRunner().invoke(cli, [*arguments, "toml"]).stdout
    assert "# standard errors: 0.0000, unknown, unknown" in toml
    text = CliRunner().invoke(cli, [*arguments, "table"]).stdout
    assert text.splitlines()[1].split() == "1 1.0000 0.0000 1.0000 to 1.0000 3 1".split()


def as_ubi(lines: list[str], rng: random.Random) -> list[str]:
    """The same events, the items of each list one by one and in any order."""
    shown = []
    for event in map(json.loads, lines):
        base = {"query_id": event["impression_id"], "timestamp": event["timestamp"]}
        places = (
            [(event["item"], None)]
            if "item" in event
            else list(zip(event["items"], (1, 2, 3), strict=True))
        )
        for item, rank in rng.sample(places, len(places)):
            details = {"object": {"object_id": item}, "position": {"ordinal": rank}}
            details["device"] = "web"
            action = event.get("kind", "impression")
            one = base | {"action_name": action, "event_attributes": details}
            shown.append(json.dumps(one | {"user_query": event.get("query")}))
    return shown


def test_lists_that_are_logged_item_by_item_give_the_same_table(tmp_path: Path) -> None:
    lines = events(1_000)
    native, ubi, config = (tmp_path / name for name in ("native", "ubi", "config.toml"))
    native.write_text("\n".join(lines))
    ubi.write_text("\n".join(as_ubi(lines, random.Random(4))))
    config.write_text('[events]\nformat = "ubi"\nubi_lists = "shown"\n')
    options = ("--depth", "3", "--surface", "device=web")
    whole = CliRunner().invoke(cli, ["propensities", str(native), *options])
    arguments = ["propensities", str(ubi), *options, "--config", str(config)]
    by_item = CliRunner().invoke(cli, arguments)
    assert by_item.exit_code == 0 and by_item.stdout == whole.stdout
    assert by_item.stderr == whole.stderr
    other = CliRunner().invoke(cli, [*arguments[:-3], "device=tv", *arguments[-2:]])
    assert 'seen "web" 1,000 times' in other.stderr


def test_feedback_that_joins_by_last_touch_is_refused(tmp_path: Path) -> None:
    path, config = tmp_path / "events.jsonl", tmp_path / "touch.toml"
    path.write_text("\n".join(events(1)))
    config.write_text('[attribution]\njoin = "last_touch"')
    result = CliRunner().invoke(cli, ["propensities", str(path), "--config", str(config)])
    assert result.exit_code == 1 and 'attribution.join=last_touch: must be "id"' in result.stderr
