"""`relevanced propensities`: ranks that are looked at half as often get half the propensity."""

import json
import random
from pathlib import Path

from click.testing import CliRunner

from relevanced.daemon.commands.cli import cli
from relevanced.daemon.config.loading import load

LOOKED_AT = (1.0, 0.6, 0.3)
START_MS = 1_795_176_000_000


def events(searches: int) -> list[str]:
    """Searches for 40 queries, their three items in a random order."""
    rng = random.Random(3)
    attractive = {f"d{number}": rng.uniform(0.2, 0.8) for number in range(120)}
    lines = []
    for number in range(searches):
        query = rng.randrange(40)
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
    ranks = json.loads(result.output)
    assert result.exit_code == 0 and [row["rank"] for row in ranks] == [1, 2, 3, 4]
    for row, true in zip(ranks, LOOKED_AT):
        assert abs(row["propensity"] - true) < 0.03 and row["shared_items"] == 120
    assert ranks[3] == {"rank": 4, "propensity": None, "stderr": None, "shared_items": 0}


def test_a_table_may_be_pasted_into_the_configuration(tmp_path: Path) -> None:
    path, there = tmp_path / "events.jsonl", tmp_path / "there.jsonl"
    path.write_text("\n".join(events(2_000)))
    there.write_text("\n".join(line.replace('"web"', '"ios"') for line in events(100)))
    arguments = ["propensities", str(path), "--depth", "3", "--output", "toml"]
    result = CliRunner().invoke(cli, [*arguments, str(there), "--surface", "device=web"])
    assert result.output.startswith('# of impressions with "device=web"\n[propensities.tables."w')
    head = '[metrics]\nnames = ["IPS-P@3"]\n[propensities]\nattribute = "device"\n'
    surfaces = load(head + result.output, {}, "pasted").plan.surfaces
    assert surfaces is not None
    [table] = surfaces.tables
    assert (table.surface, table.version) == ("web", "2026-11-20")
    for found, true in zip(table.values, LOOKED_AT, strict=True):
        assert abs(found - true) < 0.1
    alone = CliRunner().invoke(cli, arguments).output.split("\n")[1:]
    assert alone == result.output.replace('"web"', '"all"').split("\n")[1:]


def test_a_surface_must_be_an_attribute_and_its_value(tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl"
    path.write_text("")
    result = CliRunner().invoke(cli, ["propensities", str(path), "--surface", "web"])
    assert result.exit_code == 2 and "must be ATTRIBUTE=VALUE" in result.output
