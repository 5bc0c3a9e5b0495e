"""The page of topics: what `relevanced doctor` says of a recording of Segment's calls; and what it
proposes for the traffic of every preset, which is what the table of presets has.

    python -m deploy.doctor_examples    # writes the page: make doctor-examples
"""

import re
import tomllib
from contextlib import chdir
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

from . import example_commands

PAGE: Final = Path(__file__).parent / "guide" / "topics.md"
SAMPLE: Final = "--kcat --start 2026-11-20T12:00:00Z --duration 15m --rate 4"
PROPOSAL: Final = "# Proposed by relevanced doctor."
LEFT_OUT: Final = re.compile(
    r"(?:^ok +(?:ids|ranks|duplicates|attribute|crawlers|size|smallest drop|disorder|keys) .*\n)+",
    re.M,
)


@dataclass(frozen=True)
class Example:
    """The traffic of a tool."""

    title: str
    topics: dict[str, str]
    """Topic → preset in whose format its records are written."""

    @property
    def commands(self) -> list[str]:
        """Those that record the traffic; at last the one that looks at it."""
        recording = [
            f"relevanced simulate --format {preset} --topic {topic} --out {topic}.jsonl {SAMPLE}"
            for topic, preset in self.topics.items()
        ]
        return [
            *recording,
            f"relevanced doctor {' '.join(f'{topic}.jsonl' for topic in self.topics)}",
        ]


EXAMPLES: Final = (
    Example("Segment", {"shop": "segment"}),
    Example("RudderStack", {"shop": "rudderstack"}),
    Example("Snowplow", {"shop": "snowplow"}),
    Example("Google Analytics 4", {"shop": "ga4"}),
    Example("Algolia", {"searches": "algolia-search-log", "insights": "algolia-insights"}),
    Example("Metarank", {"shop": "metarank"}),
    Example("Elastic Behavioral Analytics", {"shop": "elastic"}),
    Example("OpenSearch UBI", {"shop": "ubi"}),
    Example("The native format", {"shop": "native"}),
)
SHOWN: Final = EXAMPLES[0]


def output_of(example: Example) -> str:
    """What the last command prints. Raises RuntimeError for a command that fails."""
    with TemporaryDirectory() as folder, chdir(folder):
        return [example_commands.output_of(command) for command in example.commands][-1]


def proposed(output: str) -> list[dict[str, Any]]:
    """The sources of the configuration that the output proposes."""
    _, mark, toml = output.partition(PROPOSAL)
    return list(tomllib.loads(mark + toml)["sources"])


def shown(output: str) -> str:
    """What the page has of it: lines that are like others stand as `…`."""
    return LEFT_OUT.sub("…\n", output)


def with_example(page: str) -> str:
    """The page with the section of its example as it is now."""
    return example_commands.with_section(page, SHOWN.commands, shown(output_of(SHOWN)))


if __name__ == "__main__":
    PAGE.write_text(with_example(PAGE.read_text()))
