"""What the records of files come to: native events, and the first record of each refusal."""

import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import BinaryIO, Final

from rich.console import Console
from rich.progress import Progress

from ..config.settings import Config
from ..errors import StartError, Unavailable
from ..events.decoder import too_large
from ..events.native_text import native_text
from ..events.types import Impression, Rejected
from .recorded.line_decoding import LineDecoder, UnknownTopic, line_decoder, most_line_bytes
from .recorded.line_files import Lines, read_lines
from .recorded.refusals import Refusals
from .recorded.report import refused_line

USAGE_EXIT: Final = 2


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

    def take(self, part: Lines) -> None:
        """Write the events of these lines."""
        if part.too_long is not None:
            self.records += 1
            self.refusals.note(part.place, too_large(part.too_long, self.most_bytes), b"")
            return
        for place, line in enumerate(part.split(), part.place):
            if line and not line.isspace():
                self._take_line(place, line)

    def _take_line(self, place: int, line: bytes) -> None:
        self.records += 1
        for event in self.decode(line):
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
        return 1  # Whoever read the events, such as `head`, has enough.
    except OSError as error:
        print(f"{error.filename}: cannot be read: {error.strerror}", file=sys.stderr)
        return 1
    except (StartError, Unavailable) as error:
        print(error, file=sys.stderr)
        return 1
    _say(mapped, paths)
    return 0 if mapped.events else 1


def _say(mapped: Mapped, paths: Sequence[str]) -> None:
    counts = mapped.events
    named = f"{counts['impressions']:,} impressions, {counts['feedback']:,} feedback"
    lines = [f"{mapped.records:,} records: {named}"]
    lines += map(refused_line, mapped.refusals.listed(paths))
    print("\n".join(lines), file=sys.stderr)
