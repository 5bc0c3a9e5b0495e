"""`relevanced map`: what the records of files come to, to write a mapping with: native events, and
the first record of each refusal.
"""

import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import BinaryIO, Final

import click
from rich.console import Console
from rich.progress import Progress

from ..changes import sentences
from ..commands import options
from ..config import Config
from ..errors import StartError, Unavailable
from ..events import NOT_MAPPED, Impression, Rejected, native_text, too_large
from ..recompute.files import (
    LineDecoder,
    Lines,
    Refusals,
    UnknownTopic,
    line_decoder,
    most_line_bytes,
    read_lines,
    refused_line,
)

USAGE_EXIT: Final = 2
SHOWN_KINDS: Final = 10
"""So many values that no table takes are named."""


@dataclass
class Mapped:
    """What was mapped so far."""

    decode: LineDecoder
    most_bytes: int
    """Of a record."""
    out: BinaryIO
    records: int = 0
    events: Counter[str] = field(default_factory=Counter)
    """Impressions and feedback."""
    refusals: Refusals = field(default_factory=Refusals)
    asked: Counter[str] = field(default_factory=Counter)
    """What `where` and `kinds` were asked with in vain."""

    def take(self, part: Lines) -> None:
        """Write the events of these lines."""
        if part.too_long is not None:
            self.records += 1
            self.refusals.note(part.place, too_large(part.too_long, self.most_bytes), b"")
            return
        for place, line in enumerate(part.split(), part.place):
            if not line or line.isspace():
                continue
            self.records += 1
            events = self.decode(line)
            if any(isinstance(event, Rejected) and event.reason == NOT_MAPPED for event in events):
                self.asked.update(self.decode.asked(line))
            for event in events:
                if isinstance(event, Rejected):
                    self.refusals.note(place, event, line)
                    continue
                self.events["impressions" if isinstance(event, Impression) else "feedback"] += 1
                self.out.write(native_text(event) + b"\n")


def map_files(
    paths: Sequence[str], config: Config, *, kcat: bool, topic: str | None, out: BinaryIO
) -> int:
    """Write the events of all lines to `out` and the counts to standard error; returns the exit
    code: 1 where there is no event, a file cannot be read, or the schema registry not asked."""
    bars = Progress(console=Console(stderr=True, quiet=True))
    try:
        with line_decoder(config, kcat=kcat, topic=topic) as decode:
            mapped = Mapped(decode, config.events.max_record_bytes, out)
            for part in read_lines(paths, bars, most_line_bytes(config, kcat=kcat)):
                mapped.take(part)
    except UnknownTopic as error:
        print(error, file=sys.stderr)
        return USAGE_EXIT
    except BrokenPipeError:
        raise  # Whoever read the events, such as `head`, has enough.
    except OSError as error:
        print(f"{error.filename}: cannot be read: {error.strerror}", file=sys.stderr)
        return 1
    except (StartError, Unavailable) as error:
        print(error, file=sys.stderr)
        return 1
    counts = mapped.events
    named = f"{counts['impressions']:,} impressions, {counts['feedback']:,} feedback"
    lines = [f"{mapped.records:,} records: {named}"]
    lines += map(refused_line, mapped.refusals.listed(paths))
    if mapped.asked:
        asked = (
            f"{sentences.printable(what)} {n:,}"
            for what, n in mapped.asked.most_common(SHOWN_KINDS)
        )
        more = len(mapped.asked) - SHOWN_KINDS
        rest = f", and {more:,} more" if more > 0 else ""
        lines.append(f"not_mapped: no where or kinds takes {', '.join(asked)}{rest}")
    print("\n".join(lines), file=sys.stderr)
    return 0 if mapped.events else 1


@click.command("map")
@click.argument(
    "files",
    nargs=-1,
    required=True,
    type=click.Path(exists=True, dir_okay=False),
    metavar="FILE...",
)
@options.config_option()
@options.kcat_option()
@options.topic_option()
def map_command(
    files: tuple[str, ...], config_file: str | None, kcat: bool, topic: str | None
) -> None:
    """Print what the records of FILES come to under [[sources]], as events of the native format.

    On standard error: how many events there are, and for each reason why records are refused,
    skipped or dropped, how often and the first one. Exits with 1 where there is no event.
    """

    config = options.configured(config_file, {}, takes_sources=True)
    sys.exit(map_files(list(files), config, kcat=kcat, topic=topic, out=sys.stdout.buffer))
