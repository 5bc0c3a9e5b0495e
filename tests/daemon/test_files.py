"""What is no regular file, is endless or does not answer is refused and said; nothing waits for
it."""

import asyncio
import os
import time
from collections.abc import Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Final

import pytest
from click.testing import CliRunner

from relevanced.daemon.commands.cli import cli
from relevanced.daemon.config import ConfigError, read
from relevanced.daemon.errors import RegistryUnavailable, StartError
from relevanced.daemon.files import FileLooks, NotRead, content, in_time
from relevanced.daemon.http import check as check_web_config
from relevanced.daemon.judgements import HOUR_MS, INDEX, Library, add, read as read_judgements
from relevanced.daemon.kafka import KafkaSettings, client_arguments
from relevanced.daemon.registry import RegistryClient, RegistrySettings
from relevanced.daemon.storage import connect
from tests.silent_mount import silent_mount

MOST_S: Final = 30.0
JUDGED_TEXT: Final = "query,docid,rating\nshoes,d1,3\n"


def pipe(path: Path) -> None:
    os.mkfifo(path)


def endless(path: Path) -> None:
    path.symlink_to("/dev/zero")


def loop(path: Path) -> None:
    path.symlink_to(path)


def folder(path: Path) -> None:
    path.mkdir()


MAKERS: Final = (pipe, endless, loop, folder)
RULE: Final = "is no regular file|[Tt]oo many levels of symbolic links"


@pytest.fixture(params=MAKERS, ids=[make.__name__ for make in MAKERS])
def odd(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    path = tmp_path / "odd"
    request.param(path)
    return path


@pytest.fixture(autouse=True)
def _nothing_waits() -> Iterator[None]:
    began_s = time.monotonic()
    yield
    assert time.monotonic() - began_s < MOST_S


def test_only_regular_files_are_read(odd: Path) -> None:
    with pytest.raises(OSError, match=RULE):
        content(odd)


def test_size_is_bounded_before_the_content_is_read_and_while_it_grows(tmp_path: Path) -> None:
    sparse = tmp_path / "sparse"
    with sparse.open("wb") as file:
        file.truncate(1 << 40)
    with pytest.raises(OSError, match="must have at most 10 bytes"):
        content(sparse, 10)
    with pytest.raises(OSError, match="must have at most 10 bytes"):
        content("/proc/self/status", 10)  # of size 0 to stat


def test_configuration_names_what_cannot_be_read(odd: Path, tmp_path: Path) -> None:
    toml = tmp_path / "relevanced.toml"
    toml.write_text(f'[redis]\npassword_file = "{odd}"\n')
    with pytest.raises(ConfigError, match=f"redis.password_file={odd}: cannot be read: ({RULE})"):
        read(str(toml), {})
    with pytest.raises(ConfigError, match=RULE):
        read(str(odd), {})


def test_web_configuration_and_authorities_are_regular_files(odd: Path) -> None:
    with pytest.raises(ConfigError, match=RULE):
        check_web_config(str(odd))
    with pytest.raises(StartError, match=RULE):
        client_arguments(KafkaSettings("k:1", security_protocol="SSL", ssl_cafile=str(odd)))
    with pytest.raises(StartError, match=RULE):
        RegistryClient(RegistrySettings(("https://r",), ssl_cafile=str(odd)))
    with pytest.raises(ValueError, match=RULE):
        connect(f"rediss://h?ssl_ca_certs={odd}")


async def test_token_is_a_regular_file(odd: Path) -> None:
    settings = RegistrySettings(("http://127.0.0.1:1",), bearer_token_file=str(odd))
    client = RegistryClient(settings)
    with pytest.raises(RegistryUnavailable, match=RULE):
        await client.get(lambda base: base, lambda answer: None)
    await client.close()


def test_listed_file_or_index_of_another_kind_is_a_fault(odd: Path, tmp_path: Path) -> None:
    directory, source = tmp_path / "files", tmp_path / "a.csv"
    directory.mkdir()
    source.write_text(JUDGED_TEXT)
    entry, _ = add(directory, source, HOUR_MS, 0)
    library = Library(directory, read_judgements)
    for name in (entry.name, INDEX):
        (directory / name).unlink()
        (directory / name).symlink_to(odd)
        library.refresh(())
        fault, *_ = (*library.index_faults, *library.faults)
        assert str(directory / name) in str(fault)


@pytest.mark.parametrize("command", ["judgements", "classes"])
def test_check_and_add_say_it(odd: Path, tmp_path: Path, command: str) -> None:
    for given in (
        ["check", str(odd)],
        ["add", "--directory", str(tmp_path), "--from", "2036-11-20T12:00:00Z", str(odd)],
    ):
        if odd.is_dir() and given[0] == "check":
            continue  # one that lists nothing
        found = CliRunner().invoke(cli, [command, *given])
        assert found.exit_code == 2 and str(odd) in found.output, found.output


def test_mount_that_does_not_answer_is_said_by_whoever_reads(tmp_path: Path) -> None:
    mount, toml = tmp_path / "mount", tmp_path / "relevanced.toml"
    mount.mkdir()
    toml.write_text(f'[judgements]\ndirectory = "{mount}"\n')
    with silent_mount(mount):
        with pytest.raises(NotRead, match="not read for") as caught:
            in_time(lambda: content(mount / "a"), "what", 0.2)
        assert caught.value.filename == str(mount / "a")
        assert read(str(toml), {}).judgements.directory == str(mount)


async def test_looks_give_a_reading_up_and_wait_for_it_before_the_next(tmp_path: Path) -> None:
    looks, read = FileLooks("what", 0.2), partial(content, tmp_path / "a")
    (tmp_path / "a").write_text("x")
    with silent_mount(tmp_path):
        for _ in range(2):
            with pytest.raises(NotRead):
                await looks.look(read)
        assert looks.unread.startswith(f"{tmp_path / 'a'}: not read for ")
    found = None
    async with asyncio.timeout(30):  # what reads ends soon behind the mount
        while found is None:
            with suppress(NotRead):
                found = await looks.look(read)
    assert found == b"x" and looks.unread == ""
