"""doctor.md: what `relevanced doctor` says of a recording of each preset's traffic; and the same of
Segment's in README.md.

    python -m deploy.doctor_examples    # writes both: make doctor-examples
"""

from collections.abc import Iterator
from contextlib import chdir
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from . import example_commands

DOCUMENT: Final = Path(__file__).parent / "doctor.md"
README: Final = Path(__file__).parent.parent / "README.md"
HEAD: Final = """\
# What `relevanced doctor` says of each preset's traffic

The commands below simulate fifteen minutes of a shop's traffic in the format of each preset, as
`kcat -C -J` records it, and look at the recording. The proposed configuration is ready for
`relevanced check-config` and `relevanced replay`. With topics of your own, `relevanced doctor
--kafka HOST:PORT --topics NAME` says the same of their last minutes. This page is written by the
commands themselves (`make doctor-examples`). What the lines mean:

* `ok`, `look` and `WRONG` begin a line. `look` is for somebody to check; `WRONG` makes numbers
  wrong, and the exit code 1.
* `records`: the share that the preset maps, and why others are left out. `other kinds`: events of
  kinds that the preset does not know, such as a shop's own; those that are feedback are one line in
  `kinds`.
* `join rate`: of the feedback of the last two thirds of the sample, as the lists of earlier
  feedback may lie before it.
* `same partition`: a worker joins what stands in one partition number. Feedback that stands
  elsewhere is lost to it.
* `ranks`: whether items stand in their lists at the ranks that feedback states; a preset's
  `rank_base` is corrected in the proposal where they do not.
* `time` and `disorder` decide about `attribution.lateness`, `feedback after` about
  `attribution.window`.
* `size` is computed for the groupings, windows and metrics of the proposal, at the rate of the
  sample.
* `smallest drop`: of a score, that would be noticed within a day. Less traffic, or more varied
  searches, make it larger.
"""
SAMPLE: Final = "--kcat --start 2026-11-20T12:00:00Z --duration 15m --rate 4"


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
IN_README: Final = EXAMPLES[0]


def output_of(example: Example) -> str:
    """What the last command prints. Raises RuntimeError for a command that fails."""
    with TemporaryDirectory() as folder, chdir(folder):
        return [example_commands.output_of(command) for command in example.commands][-1]


def section_of(example: Example) -> str:
    """The section of an example, without its title."""
    return example_commands.section_of(example.commands, output_of(example))


def with_example(readme: str) -> str:
    """README.md with the section of its example as it is now."""
    return example_commands.with_section(readme, IN_README.commands, output_of(IN_README))


def document() -> Iterator[str]:
    """The parts of doctor.md."""
    yield HEAD
    for example in EXAMPLES:
        yield f"\n## {example.title}\n{section_of(example)}"


if __name__ == "__main__":
    DOCUMENT.write_text("".join(document()))
    README.write_text(with_example(README.read_text()))
