"""What a change that only moves code leaves equal, as hashes: stored bytes, exposition, texts.

    python -m tests.same_bytes write FILE     the hashes of this tree
    python -m tests.same_bytes check FILE     which of them differ now; 1 where any does

Made before such a change and checked after each step. The hashes of one environment: another
version of numpy, zlib or zstd may compress to other bytes.
"""

import hashlib
import json
import random
import sys
from collections.abc import Callable, Iterator
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

import click
import msgspec
from click.testing import CliRunner

from relevanced.daemon.changes import DEFAULTS
from relevanced.daemon.commands.cli import cli
from relevanced.daemon.config import decoder_of, load
from relevanced.daemon.exporter import Publisher
from relevanced.daemon.http import ROUTES, openapi
from relevanced.daemon.judgements import IndexEntry, Judgements, Timeline
from relevanced.daemon.kafka import Record
from relevanced.daemon.lane import Lane, new_lane
from relevanced.daemon.plan import Plan
from relevanced.daemon.storage import (
    ClaimedLane,
    InForce,
    LaneDelta,
    confirm,
    first_layouts,
    head_of,
    plan_commit,
)
from relevanced.daemon.tools.traffic import NATIVE, SHAPES
from relevanced.daemon.views import Mirror
from relevanced.daemon.worker import batch
from tests.fakes import MemoryLane

NOON: Final = 1_795_176_000_000
SEEDS: Final = range(24)
BATCHES, SEARCHES = 4, 60
HOUR_MS: Final = 3_600_000
TOPIC: Final = "searches"
CONFIGURATION: Final = """
windows = ["5m", "1h"]
{kafka}
[segments]
groupings = [["country"], ["country", "device"]]
max_segments = 2
[metrics]
names = ["P@1", "P@5", "RR@10", "ERR@10", "nDCG@10", "Success@5", "AP@10"]
[queries]
text = "plain"
min_users = 2
[judgements]
directory = "{folder}"
metrics = ["nDCG@10", "Judged@10"]
{sources}
"""
WRONG_CONFIGURATIONS: Final = (
    'windows = ["5m", "7m"]',
    "[kafka]\ntopic = 1",
    '[metrics]\nnames = ["nDGC@10", "P@1000"]',
    '[segments]\ngroupings = [["a", "a"]]\nmax_segments = 0',
    '[redis]\nurl = "http://x"',
    '[attribution]\nwindow = "x"\n[attribution.grades]\nclick = -1',
    '[[sources]]\ntopic = "a"\npreset = "nothing"',
    '[[experiments]]\nname = ""',
    '[queries]\ntext = "x"',
)


def main(arguments: list[str]) -> int:
    verb, file = arguments
    with TemporaryDirectory() as folder:
        found = dict(hashes(Path(folder)))
    if verb == "write":
        Path(file).write_text(json.dumps(found, indent=0) + "\n")
        return 0
    known = json.loads(Path(file).read_text())
    differing = [name for name in sorted({*known, *found}) if known.get(name) != found.get(name)]
    print(f"{len(known)} hashes, {len(differing)} differ", *differing, sep="\n")
    return bool(differing)


def hashes(folder: Path) -> Iterator[tuple[str, str]]:
    """(name, hash) of everything."""
    for shape in (NATIVE, *SHAPES):
        if shape == NATIVE or not SHAPES[shape].is_part:
            for seed in SEEDS if shape == NATIVE else SEEDS[:3]:
                stored, exposed = run_of(shape, seed, folder)
                yield f"stored/{shape}/{seed}", stored
                yield f"metrics/{shape}/{seed}", exposed
    yield "openapi", _hash(openapi.document("1", ROUTES))
    yield from _help_texts(cli, ("relevanced",))
    yield from _outputs(folder)


def run_of(shape: str, seed: int, folder: Path) -> tuple[str, str]:
    """Hashes of all that is stored, and of the text of /metrics, after each of a few batches."""
    kafka, sources = f'[kafka]\ntopics = ["{TOPIC}"]', ""
    if shape != NATIVE:
        kafka, sources = "", SHAPES[shape].source(TOPIC, shape)
    text = CONFIGURATION.format(kafka=kafka, sources=sources, folder=folder)
    config = load(text, {}, "same_bytes.toml")
    decode = decoder_of(config)
    lane, stored, exposed = _judged_lane(config.plan), hashlib.sha256(), hashlib.sha256()
    layouts = first_layouts(InForce(config.plan, 1, "d", ""))
    claimed = ClaimedLane(
        lane=lane,
        layouts=layouts,
        token="k",
        sequence=0,
        log=[],
        names=1,
        next_slot=0,
        next_serial=0,
        layouts_stored=False,
    )
    store = MemoryLane()
    store.claim("k", b'{"searches":0}')
    mirror, publisher = Mirror(0, config.plan), Publisher(config.plan, DEFAULTS)
    rng, offset, known, sequence = random.Random(seed), 0, 1, 0
    for number in range(BATCHES):
        records = _records(shape, _events(rng, number), offset)
        offset += len(records)
        batch.begin(lane)
        for topic, part in batch.chunks({TOPIC: records}, 50):
            for _ in batch.steps(lane, topic, part, decode, []):
                pass
        batch.end(lane, {TOPIC: offset})
        commit = plan_commit(claimed)
        assert store.commit(commit) == "applied"
        confirm(claimed, commit)
        for part_of_lane in (store.fields, store.names, store.blobs, store.listed):
            for key in sorted(part_of_lane):
                stored.update(repr((key, part_of_lane[key])).encode())
        head = head_of(store.fields)
        names = [
            tuple(msgspec.json.decode(store.names[str(number)]))
            for number in range(known, len(store.names) + 1)
            if str(number) in store.names
        ]
        pages = {key: store.blobs[key] for key, at in store.listed.items() if at > sequence}
        mirror.apply(LaneDelta(head, sequence == 0, names, pages))
        sequence, known = head.sequence, len(lane.segments.names)
        published = publisher.publish([mirror.view()], NOON + 3 * HOUR_MS)
        for chunk in published.text.plain:
            exposed.update(bytes(chunk))
    return stored.hexdigest()[:16], exposed.hexdigest()[:16]


def _judged_lane(plan: Plan) -> Lane:
    lane = new_lane(0, plan, {TOPIC: 0}, [TOPIC])
    entry = IndexEntry(0, "a.csv", "0" * 64)
    grades = {f"query {n}": {f"d{m}": float(m % 3) for m in range(4)} for n in range(3)}
    lane.judged.files.prepare(Timeline((entry,)), {entry: Judgements(grades)})
    return lane


def _events(rng: random.Random, number: int) -> list[dict[str, Any]]:
    """Searches of a quarter of an hour with clicks: some twice, some late, some that join none."""
    events: list[dict[str, Any]] = []
    for n in range(SEARCHES):
        at = NOON + (number * SEARCHES + n) * 15_000 - rng.choice((0, 0, 0, 20_000, 9_000_000))
        items = [f"d{item}" for item in rng.sample(range(12), rng.randint(0, 10))]
        attributes = {
            "country": rng.choice(("US", "DE", "FR", "A,B")),
            "device": rng.choice(("ios", "web")),
        }
        shown = {
            "type": "impression",
            "impression_id": f"q{number}-{n}",
            "timestamp": at,
            "query": f"query {rng.randrange(5)}",
            "items": items,
            "attributes": attributes,
            "experiments": {"ranker-v2": rng.choice(("control", "treatment"))},
            "user_id": f"u{rng.randrange(9)}",
        }
        events += [shown] * rng.choice((1, 1, 1, 2))
        for _ in range(rng.choice((0, 1, 1, 2)) if items else 0):
            rank = rng.randint(1, len(items))
            click = {
                "type": "feedback",
                "impression_id": rng.choice((shown["impression_id"], f"q{number}-none")),
                "timestamp": at + rng.randrange(60_000),
                "kind": rng.choice(("click", "purchase", "add_to_cart")),
                "item": items[rank - 1],
                "rank": rank,
            }
            events.insert(rng.randint(0, len(events)), click)
    return events


def _records(shape: str, events: list[dict[str, Any]], offset: int) -> list[Record]:
    record: Callable[[dict[str, Any]], Any] = (
        SHAPES[shape].record if shape != NATIVE else lambda event: event
    )
    return [
        Record(TOPIC, 0, offset + n, e["timestamp"], None, msgspec.json.encode(record(e)), ())
        for n, e in enumerate(events)
    ]


def _help_texts(command: click.Command, path: tuple[str, ...]) -> Iterator[tuple[str, str]]:
    """--help of a command and of those below it."""
    context = click.Context(command, info_name=path[-1])
    yield "help/" + " ".join(path), _hash(command.get_help(context))
    if isinstance(command, click.Group):
        for name in command.list_commands(context):
            below = command.get_command(context, name)
            assert below is not None
            yield from _help_texts(below, (*path, name))


def _outputs(folder: Path) -> Iterator[tuple[str, str]]:
    """What commands print of simulated events, and of faulty configurations."""
    recorded = folder / "recorded.jsonl"
    rng = random.Random(7)
    events = [event for number in range(8) for event in _events(rng, number)]
    recorded.write_bytes(b"\n".join(msgspec.json.encode(event) for event in events))
    (folder / "qrels.txt").write_text("".join(f"q{n} 0 d{n % 7} {n % 3}\n" for n in range(40)))
    lines = [f"q{n % 20} Q0 d{n % 9} {n % 9 + 1} {20 - n % 9} run\n" for n in range(180)]
    (folder / "run.txt").write_text("".join(lines))
    broken = str(folder / "broken.jsonl")
    commands = {
        "simulate": [
            *("simulate", "--out", broken, "--start", "2026-11-20T00:00:00Z", "--rate", "1"),
            *("--backfill", "20h", "--duration", "4h", "--regression-after", "1h"),
            *("--regression-segment", "all=all"),
        ],
        "replay broken": ["replay", broken, "--changes"],
        "replay broken json": ["replay", broken, "--changes", "--output", "json"],
        "replay experiment": ["replay", broken, "--experiment", "ranker-v2"],
        "replay json": ["replay", str(recorded), "--output", "json"],
        "replay table": ["replay", str(recorded)],
        "replay changes": ["replay", str(recorded), "--changes"],
        "replay every": ["replay", str(recorded), "--every", "30m", "--output", "json"],
        "replay csv": ["replay", str(recorded), "--output", "csv"],
        "eval": ["eval", str(folder / "qrels.txt"), str(folder / "run.txt"), "--output", "json"],
        "eval per query": [
            "eval",
            str(folder / "qrels.txt"),
            str(folder / "run.txt"),
            "--per-query",
        ],
        "metrics": ["metrics"],
        "settings": ["settings"],
    }
    for number, text in enumerate(WRONG_CONFIGURATIONS):
        file = folder / f"wrong{number}.toml"
        file.write_text(text)
        commands[f"check-config {number}"] = ["check-config", str(file)]
    for name, arguments in commands.items():
        with redirect_stdout(StringIO()):
            result = CliRunner().invoke(cli, arguments)
        text = f"{result.exit_code}\n{result.output}".replace(str(folder), "FOLDER")
        yield f"output/{name}", _hash(text)


def _hash(text: str | bytes) -> str:
    return hashlib.sha256(text.encode() if isinstance(text, str) else text).hexdigest()[:16]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
