"""The command in a terminal: its completion, its colours, a reader that leaves, and Ctrl-C."""

import os
import pty
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

from relevanced.daemon.commands.cli import CLOSED_PIPE_EXIT, INTERRUPTED_EXIT

COMMAND = [sys.executable, "-m", "relevanced.daemon"]


def completion(instruction: str, **environment: str) -> str:
    variables = os.environ | environment | {"_RELEVANCED_COMPLETE": instruction}
    done = subprocess.run(COMMAND, env=variables, capture_output=True, text=True, timeout=120)
    return done.stdout


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_shell_completes_commands_and_options(shell: str) -> None:
    if shell == "bash" and shutil.which("bash") is None:
        pytest.skip("no bash")  # click asks it for its version
    assert "_RELEVANCED_COMPLETE" in completion(f"{shell}_source")
    for typed, found in (("check", "check-config"), ("run --ro", "--role")):
        words = ["relevanced", *typed.split()]
        last = words[-1] if shell == "fish" else str(len(words) - 1)
        variables = {"COMP_WORDS": " ".join(words), "COMP_CWORD": last}
        assert found in completion(f"{shell}_complete", **variables)


@pytest.mark.parametrize(
    "arguments", [["settings"], ["metrics"], ["simulate", "--out", "-", "--backfill", "1h"]]
)
def test_reader_that_leaves_ends_the_command_in_silence(arguments: list[str]) -> None:
    with subprocess.Popen(
        [*COMMAND, *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        assert process.stdout is not None and process.stderr is not None
        process.stdout.close()
        errors = process.stderr.read()
    assert (process.wait(), errors) == (CLOSED_PIPE_EXIT, b"")


def test_interrupt_ends_a_command_in_silence(tmp_path: Path) -> None:
    """The pipe keeps the command reading its input."""
    pipe = tmp_path / "events"
    os.mkfifo(pipe)
    with subprocess.Popen(
        [*COMMAND, "replay", str(pipe)], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        with pipe.open("wb"):  # returns once the command has opened it to read
            process.send_signal(signal.SIGINT)
            output, errors = process.communicate(timeout=120)
    assert (process.returncode, output, errors) == (INTERRUPTED_EXIT, b"", b"")


LINE: Final = (
    b'{"type":"impression","impression_id":"q1","timestamp":1795176000000,"items":["a"]}\n'
)
FORGOTTEN: Final = """
import signal, tempfile
from relevanced.daemon.recompute.files import time_order
from relevanced.daemon.commands.cli import main

class Finalized:
    def __del__(self):
        signal.raise_signal(signal.SIGINT)

def open_file(*given, make=tempfile.TemporaryFile, **more):
    Finalized()  # ends here, and so does the interrupt
    return make(*given, **more)

signal.signal(signal.SIGINT, signal.default_int_handler)  # what starts the tests may ignore it
tempfile.TemporaryFile, time_order.BUFFER_BYTES = open_file, 1 << 16
main()
"""


def test_interrupt_in_a_finalizer_ends_a_command_in_silence(tmp_path: Path) -> None:
    """Python itself forgets it. The pipe keeps the command reading its input."""
    pipe = tmp_path / "events"
    os.mkfifo(pipe)
    command = [sys.executable, "-c", FORGOTTEN, "replay", str(pipe)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        with pipe.open("wb") as events:
            events.write(LINE * 20_000)
            events.flush()
            output, errors = process.communicate(timeout=120)
    assert (process.returncode, output, errors) == (INTERRUPTED_EXIT, b"", b"")


@pytest.mark.parametrize("no_color", [False, True])
def test_no_color_is_heeded_in_a_terminal(no_color: bool) -> None:
    ours, theirs = pty.openpty()
    variables = {name: value for name, value in os.environ.items() if name != "NO_COLOR"}
    variables |= {"TERM": "xterm-256color"} | ({"NO_COLOR": "1"} if no_color else {})
    code = "import sys, structlog\nfrom relevanced.daemon.telemetry import configure\n"
    code += "configure('info', 'console', sys.stdout)\nstructlog.get_logger('x').warning('seen')"
    subprocess.run([sys.executable, "-c", code], env=variables, stdout=theirs, stderr=theirs)
    os.close(theirs)
    text = os.read(ours, 65536)
    os.close(ours)
    assert b"seen" in text and (b"\x1b[3" in text) != no_color
