"""`relevanced password` prints what a web configuration file takes, and shows no password."""

import os
import pty
import subprocess
import sys

import pytest
from click.testing import CliRunner

from relevanced.daemon.commands.cli import cli
from relevanced.daemon.http import find_crypt, matches, parse, refusal

PASSWORD = "grün geheim"


def printed(*options: str, given: str) -> tuple[int, str]:
    done = CliRunner().invoke(cli, ["password", *options], input=given)
    return done.exit_code, done.output.rstrip("\n")


@pytest.mark.parametrize("options", [(), ("--bcrypt",)])
def test_the_hash_is_taken_and_belongs_to_the_password(options: tuple[str, ...]) -> None:
    code, line = printed(*options, given=f"{PASSWORD}\r\nsecond line\n")
    assert code == 0 and refusal(line) is None and PASSWORD not in line
    user = parse(f"basic_auth_users: {{bob: '{line}'}}").users["bob"]
    assert user.reveal() == line == parse(f"basic_auth_users:\n  bob: {line}").users["bob"].reveal()
    assert matches(PASSWORD.encode(), line, find_crypt())
    assert not matches(b"second line", line, find_crypt())
    assert printed(*options, given=PASSWORD)[1] != line, "every hash has a salt of its own"


@pytest.mark.parametrize(
    ("options", "given", "words"),
    [
        ((), "\n", "no password"),
        (("--bcrypt",), "x" * 73, "bcrypt takes 72 bytes at most"),
        (("secret",), "", "unexpected extra argument"),
    ],
)
def test_what_is_no_password_is_refused(options: tuple[str, ...], given: str, words: str) -> None:
    code, said = printed(*options, given=given)
    assert code != 0 and words in said and "x" * 73 not in said


def test_a_terminal_is_asked_twice_and_echoes_nothing() -> None:
    ours, theirs = pty.openpty()
    command = [sys.executable, "-m", "relevanced.daemon", "password"]
    with subprocess.Popen(
        command, stdin=theirs, stdout=subprocess.PIPE, stderr=theirs, start_new_session=True
    ) as process:
        shown = b""
        for prompt in (b"Password: ", b"confirmation: "):
            while prompt not in shown:
                shown += os.read(ours, 1000)
            os.write(ours, f"{PASSWORD}\n".encode())
        assert process.stdout is not None
        line = process.stdout.read().decode().strip()
    os.close(theirs)
    os.close(ours)
    assert matches(PASSWORD.encode(), line, None) and PASSWORD.encode() not in shown
