"""What the doctor prints and writes."""

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

import msgspec

from ...events.decoder import FORMATS
from ...judging import sentences
from . import bodies
from .bodies import Given, Written
from .event_findings import USUAL, needed_lateness_s, needed_window_s
from .finding import Finding, is_wrong
from .looked import attribute_values
from .looked import Looked
from .proposing import Source
from .trials import toml

MARKS: Final = {"good": "ok   ", "look": "look ", "wrong": "WRONG"}
MOST_GROUPED: Final = 50
"""Values of an attribute that is proposed as a grouping."""


class Diagnosis(msgspec.Struct, frozen=True):
    """The result as JSON."""

    wrong: bool
    """Whether numbers would be wrong."""
    findings: list[Finding]
    configuration: str | None
    """The proposed configuration; null where there is none."""


def as_text(found: Sequence[Finding]) -> Iterator[str]:
    """A line for each finding."""
    width = max(len(finding.name) for finding in found)
    for finding in found:
        words = sentences.printable(finding.words)
        yield f"{MARKS[finding.level]}  {finding.name:<{width}}  {words}"


def as_json(found: Sequence[Finding], configuration: str | None) -> str:
    """All of it."""
    result = Diagnosis(is_wrong(found), list(found), configuration)
    return msgspec.json.format(msgspec.json.encode(result), indent=2).decode()


def configuration(
    sources: Sequence[Source],
    looked: Looked,
    brokers: Sequence[str],
    ways: Mapping[str, Written],
    given: Given,
) -> str | None:
    """The configuration with a comment on each line; None where no source can be proposed whole.
    `ways`: how the records of each topic are written."""
    if not sources or any(source.lacks_ids for source in sources):
        return None
    # The readers of these formats take plain JSON only.
    if any(one.trial.preset in FORMATS and not ways[one.topic].is_plain for one in sources):
        return None
    used = {source.topic: ways[source.topic] for source in sources}
    begin = [*_services(brokers), *bodies.registry_lines(used, given)]
    return "\n".join((*begin, *_lines(sources, looked, used, given))) + "\n"


def _services(brokers: Sequence[str]) -> Iterator[str]:
    yield "# Proposed by relevanced doctor. relevanced check-config says what else can be set."
    yield "[kafka]"
    if brokers:
        yield f"bootstrap_servers = {toml(list(brokers))}"
    else:
        yield 'bootstrap_servers = ["localhost:9092"]  # change it: where Kafka is'
    yield "[redis]"
    yield 'url = "redis://localhost:6379/0"  # change it: where Redis is'


def _lines(
    sources: Sequence[Source], looked: Looked, ways: Mapping[str, Written], given: Given
) -> Iterator[str]:
    yield from _attribution(looked)
    yield from _groupings(looked)
    for source in sources:
        yield ""
        header, topic, *rest = source.lines()
        yield from (header, topic, *bodies.lines(ways[source.topic], given), *rest)


def _attribution(looked: Looked) -> Iterator[str]:
    needed = {
        "lateness": (needed_lateness_s(looked), USUAL.lateness_s, "99 % of the events come"),
        "window": (needed_window_s(looked), USUAL.window_s, "95 % of the feedback comes"),
    }
    lines = [
        f'{key} = "{_rounded_up(seconds)}"  # {who} within {seconds:.0f} s'
        for key, (seconds, default, who) in needed.items()
        if seconds > default
    ]
    yield from ("[attribution]", *lines) if lines else ()


def _rounded_up(seconds: float) -> str:
    """A duration of whole minutes with a third to spare."""
    return f"{math.ceil(seconds * 4 / 3 / 60)}m"


def _groupings(looked: Looked) -> Iterator[str]:
    counts = {name: len(values) for name, values in attribute_values(looked).items()}
    kept = [name for name, count in counts.items() if 1 < count <= MOST_GROUPED]
    listed = ", ".join(f"{name}: {counts[name]} values" for name in kept) or "no attribute"
    yield "[segments]"
    yield f"groupings = {toml([[name] for name in kept])}  # {listed}"
