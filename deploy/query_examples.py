"""The pages of queries and judgements: what `relevanced queries` says of simulated traffic in which
five queries break, and `relevanced judgements missing` of what its judgements lack; and `relevanced
judgements check` of a file with faults.

python -m deploy.query_examples    # writes them: make query-examples
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
GUIDE: Final = Path(__file__).parent / "guide"
QUERIES: Final = GUIDE / "queries.md"
JUDGEMENTS: Final = GUIDE / "judgements.md"
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
LISTING: Final = "relevanced queries --window 1h --order lost --metric RR@10 --limit 5"
CHECKED: Final = "relevanced judgements check ratings.csv"
"""It finds faults."""
SHOWN: Final = {
    LISTING: QUERIES,
    CHECKED: JUDGEMENTS,
    "relevanced judgements missing --window 1h --limit 3": JUDGEMENTS,
}
"""The commands, and the page where the output of each stands below it."""
FAULTY_EXIT: Final = 2
_WAIT_S: Final = 60.0


def outputs() -> dict[str, str]:
    """What each command of `SHOWN` prints. Raises RuntimeError for one that fails."""
    with TemporaryDirectory() as folder, chdir(folder):
        for name, text in FILES.items():
            Path(name).write_text(text)
        Path(GRADES).mkdir()
        for command in RECORDING:
            output_of(command)
        found = {CHECKED: output_of(CHECKED, FAULTY_EXIT)}
        asking = [command for command in SHOWN if command not in found]
        with served(SERVING) as url:
            return found | {command: output_of(f"{command} --url {url}") for command in asking}


@contextmanager
def served(replaying: str) -> Iterator[str]:
    """The URL of the recording that this command serves, on a port that is free."""
    words = shlex.split(replaying)[1:]
    command = [sys.executable, "-m", "relevanced.daemon", *words, "--port", "0"]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as run:
        assert run.stdout is not None
        try:
            urls = (line.split()[0] for line in run.stdout if line.startswith("http://"))
            url = next(urls, None)
            if url is None:
                raise RuntimeError(f"{replaying}: has ended: {run.communicate()[1]}")
            yield url.rstrip("/")
        finally:
            run.terminate()
            run.communicate(timeout=_WAIT_S)


def with_examples(page: Path, text: str, shown: dict[str, str]) -> str:
    """The text of the page with the outputs as they are now."""
    for command, output in shown.items():
        if SHOWN[command] == page:
            text = with_section(text, [command], output)
    return text


if __name__ == "__main__":
    now = outputs()
    for one in (QUERIES, JUDGEMENTS):
        one.write_text(with_examples(one, one.read_text(), now))
