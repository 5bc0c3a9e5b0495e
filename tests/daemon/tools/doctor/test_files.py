"""Doctor reads files without Kafka: values alone, as JSON lines or CSV."""

import json
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner, Result

from relevanced.daemon.commands.cli import cli

START_MS = 1_795_176_000_000


def events(rng: np.random.Generator) -> list[dict[str, object]]:
    """Lists of eight items of a shop's own, and clicks on two thirds of them."""
    found: list[dict[str, object]] = []
    for search in range(300):
        at_ms, items = START_MS + search * 1500, [f"sku{n}" for n in rng.integers(0, 500, 8)]
        common = {"search": f"s{search}", "country": str(rng.choice(["DE", "US"]))}
        found.append(common | {"event_type": "results_shown", "ts": at_ms, "products": items})
        if search % 3:
            click = {"event_type": "product_clicked", "ts": at_ms + 9000, "product": items[0]}
            found.append(common | click)
    return sorted(found, key=lambda event: int(str(event["ts"])))


def as_csv(rows: list[dict[str, object]]) -> str:
    names = ("event_type", "search", "ts", "products", "product", "country")
    cells = ([row.get(name, "") for name in names] for row in rows)
    texts = ([("|".join(c) if isinstance(c, list) else str(c)) for c in row] for row in cells)
    return "".join(",".join(row) + "\n" for row in (names, *texts))


def doctor(path: Path, text: str, *options: str) -> Result:
    path.write_text(text)
    return CliRunner().invoke(cli, ["doctor", str(path), *options])


def test_json_lines_are_read_and_what_is_proposed_replays_them(
    tmp_path: Path, rng: np.random.Generator
) -> None:
    path, proposed = tmp_path / "shop log.jsonl", tmp_path / "proposed.toml"
    text = "".join(json.dumps(row) + "\n" for row in events(rng))
    found = doctor(path, text, "--out", str(proposed))
    assert found.exit_code == 0, found.output
    assert "records of shop-log" in found.stdout and 'topic = "shop-log"' in found.stdout
    replayed = CliRunner().invoke(cli, ["replay", str(path), "--config", str(proposed)])
    assert "300 impressions: accepted 300\n200 feedback: joined 200" in replayed.stdout


def test_a_proposal_that_cannot_be_written_is_a_sentence_and_the_findings_are_printed(
    tmp_path: Path, rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, text = tmp_path / "shop.jsonl", "".join(json.dumps(row) + "\n" for row in events(rng))
    found = doctor(path, text, "--out", str(tmp_path / "missing" / "x.toml"))
    assert found.exit_code == 2 and "missing is no folder" in found.stderr, "before it reads"

    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    path.write_text(text)
    monkeypatch.setattr(Path, "write_text", full)
    found = CliRunner().invoke(cli, ["doctor", str(path), "--out", str(tmp_path / "x.toml")])
    assert found.exit_code == 1 and "join rate" in found.stdout
    assert "--out: [Errno 28] No space left on device" in found.stderr


def test_the_rows_of_a_table_are_read_by_their_columns(
    tmp_path: Path, rng: np.random.Generator
) -> None:
    found = doctor(tmp_path / "shop.csv", as_csv(events(rng)))
    assert found.exit_code == 0, found.output
    assert "300 impressions, 200 pieces of feedback" in found.stdout
    assert "items = \"split(products, '|')\"" in found.stdout


@pytest.mark.parametrize(
    "text", ['{\n "type": "impression",\n "items": [\n  "a"\n ]\n}\n', "[\n{\n"]
)
def test_values_over_several_lines_get_the_way_out(tmp_path: Path, text: str) -> None:
    found = doctor(tmp_path / "events.json", text)
    assert found.exit_code == 1 and "over several lines" in found.output
    assert "jq -c ." in found.output
