"""README.md: what `relevanced queries` says of simulated traffic in which five queries break, and
`relevanced judgements missing` of what its judgements lack; and `relevanced judgements check` of a
file with faults.

python -m deploy.query_examples    # writes it: make query-examples
"""

import shlex
import subprocess
import sys
from collections.abc import Iterator
from contextlib import chdir, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from .example_commands import output_of, with_section

GRADES: Final = "grades"
"""The directory of judgements."""
README: Final = Path(__file__).parent.parent / "README.md"
FILES: Final = {
    "broken.txt": "".join(
        f"blue {kind} lamp\n" for kind in ("running", "kids", "outdoor", "office", "travel")
    ),
    "shop.toml": '[queries]\ntext = "plain"\nexamples = 1\n'
    '[judgements]\ndirectory = "grades"\nmissing = true\n',
    "ratings.csv": "query,docid,rating\nred shoes,d7,2\nRed  Shoes,d7,1\nboots,d9,five\n",
}
RECORDING: Final = (
    "relevanced simulate --out yesterday.jsonl --start 2026-11-19T12:00:00Z --duration 1h"
    " --rate 10",
    "relevanced simulate --out today.jsonl --start 2026-11-20T12:00:00Z --duration 100m --rate 10"
    " --break-queries broken.txt --judgements grades.csv",
    "relevanced judgements add grades.csv --directory grades --from 2026-11-19T12:00Z --past",
)
SERVING: Final = "relevanced replay yesterday.jsonl today.jsonl --config shop.toml --serve"
SHOWN: Final = (
    "relevanced queries --window 1h --order lost --metric RR@10 --limit 6",
    'relevanced queries --window 7d --query "blue kids lamp" --metric RR@10',
    "relevanced judgements missing --window 1h --limit 4",
)
"""The commands whose output stands below them in README.md."""
CHECKED: Final = "relevanced judgements check ratings.csv"
"""So does that of this one, which finds faults."""
FAULTY_EXIT: Final = 2
_WAIT_S: Final = 60.0


def outputs() -> dict[str, str]:
    """What `CHECKED` and each command of `SHOWN` print. Raises RuntimeError for one that fails."""
    with TemporaryDirectory() as folder, chdir(folder):
        for name, text in FILES.items():
            Path(name).write_text(text)
        Path(GRADES).mkdir()
        for command in RECORDING:
            output_of(command)
        found = {CHECKED: output_of(CHECKED, FAULTY_EXIT)}
        with served() as url:
            return found | {command: output_of(f"{command} --url {url}") for command in SHOWN}


@contextmanager
def served() -> Iterator[str]:
    """The URL of the recording, served on a port that is free."""
    command = [sys.executable, "-m", "relevanced.daemon", *shlex.split(SERVING)[1:], "--port", "0"]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as run:
        assert run.stdout is not None
        try:
            urls = (line.split()[0] for line in run.stdout if line.startswith("http://"))
            url = next(urls, None)
            if url is None:
                raise RuntimeError(f"{SERVING}: has ended: {run.communicate()[1]}")
            yield url.rstrip("/")
        finally:
            run.terminate()
            run.communicate(timeout=_WAIT_S)


def with_examples(readme: str, shown: dict[str, str]) -> str:
    """README.md with the outputs as they are now."""
    for command, output in shown.items():
        readme = with_section(readme, [command], output)
    return readme


if __name__ == "__main__":
    README.write_text(with_examples(README.read_text(), outputs()))
