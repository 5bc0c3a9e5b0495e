"""Why nothing in the files counts, and which format they may have. Pure."""

from collections.abc import Callable, Mapping, Sequence
from typing import Final

import msgspec

from ...events.decoder import FORMATS, decoder
from ...events.types import Limits, Rejected

STARTS: Final[Mapping[bytes, str]] = {
    b"\x28\xb5\x2f\xfd": "compressed with zstd: zstdcat FILE | relevanced replay /dev/stdin",
    b"BZh": "compressed with bzip2: bzcat FILE | relevanced replay /dev/stdin",
    b"\xfd7zXZ": "compressed with xz: xzcat FILE | relevanced replay /dev/stdin",
    b"PK\x03\x04": "a zip archive: unzip -p FILE | relevanced replay /dev/stdin",
    b"PAR1": "Parquet: export it as JSON lines",
    b"Obj\x01": "Avro: export it as JSON lines",
    b"\xff\xfe": "text in UTF-16: iconv -f UTF-16 -t UTF-8 FILE | relevanced replay /dev/stdin",
    b"\xfe\xff": "text in UTF-16: iconv -f UTF-16 -t UTF-8 FILE | relevanced replay /dev/stdin",
}
"""First bytes of a file → what it is, and the way out."""
SHOWN_NAMES: Final = 8
"""So many fields of an unknown record are named."""
_any_value: Final = msgspec.json.Decoder().decode


def explained(
    events: int,
    outcomes: Mapping[str, int],
    refused: Mapping[str, int],
    samples: Sequence[bytes],
    name: str,
) -> str:
    """Why no impression was accepted of files that were read in the format `name`.

    Given are the number of events, the outcomes of impressions, the reasons of refusal, and the
    first lines that were refused.
    """
    if events:
        listed = _listed(outcomes) or "there is none"
        said = f"No impression was accepted ({listed}): there is nothing to score."
        return f"{said} Of what was refused: {guess(samples, name)}" if samples else said
    if not refused:
        return "No event was read: the files have no lines."
    if not samples:
        return f"No event was read as format {name}: {_listed(refused)}."
    return f"No event was read as format {name}. {guess(samples, name)}"


def _listed(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{name} {n:,}" for name, n in counts.items() if n)


def guess(samples: Sequence[bytes], name: str) -> str:
    """A sentence on what these lines may be, which are not of the format `name`."""
    for start, words in STARTS.items():
        if samples[0].startswith(start):
            return f"The first line looks like {words}"
    for other in FORMATS:
        read = sum(_has_event(line, other) for line in samples)
        if other != name and read:
            of = f"{read} of the first {len(samples)} lines refused"
            return f"They look like format {other} ({of} are events of it): --format {other}"
    values = [value for value in map(_value, samples) if value is not None]
    if not values:
        return _guess_of_text(samples)
    objects = (value for value in values if isinstance(value, dict))
    names = list(dict.fromkeys(name for value in objects for name in value))
    shown = ", ".join(names[:SHOWN_NAMES]) + (", …" if len(names) > SHOWN_NAMES else "")
    return (
        f"The lines are JSON with the fields {shown or '(none)'}; an event of format native has"
        f" type, impression_id, timestamp. Known formats: {', '.join(FORMATS)}"
    )


def _has_event(line: bytes, name: str) -> bool:
    decoded = decoder(name, Limits())(line, None)
    return any(not isinstance(event, Rejected) for event in decoded)


def _value(line: bytes) -> object:
    try:
        return _any_value(line)
    except (ValueError, RecursionError):
        return None


def _guess_of_text(samples: Sequence[bytes]) -> str:
    first = samples[0].lstrip()
    separators: Mapping[str, Callable[[bytes], bool]] = {
        "tabs": lambda line: b"\t" in line,
        "commas": lambda line: b"," in line,
    }
    if first.startswith((b"{", b"[")):
        return (
            "They look like JSON values that go on over several lines; each must be one line:"
            " jq -c . FILE | relevanced replay /dev/stdin"
        )
    for separator, has in separators.items():
        if all(has(line) for line in samples):
            table = f"a table separated by {separator}"
            return f"They look like {table}; each line must be one JSON value"
    return "The lines are not JSON; each must be one JSON value"
