"""`relevanced lane begin-anew` gives the permission that a stopped lane's worker looks for."""

import asyncio
from pathlib import Path

from click.testing import CliRunner

from relevanced.daemon.commands.cli import cli
from relevanced.daemon.config import read
from relevanced.daemon.storage import LaneStore, namespace
from tests.services.processes import free_port
from tests.services.redis_lanes import ask, client_at
from tests.services.redis_server import RedisServer


def configured(tmp_path: Path, url: str) -> str:
    path = tmp_path / "relevanced.toml"
    path.write_text(f'[redis]\nurl = "{url}"\n')
    return str(path)


async def permitted(url: str, name: str) -> list[bool]:
    async with client_at(url) as client:
        store = LaneStore(client, name)
        return [await store.may_begin_anew(lane) for lane in range(3)]


def test_permission_is_for_one_lane_and_expires(redis: RedisServer, tmp_path: Path) -> None:
    config = configured(tmp_path, redis.url)
    name = namespace(read(config, {}))
    result = CliRunner().invoke(cli, ["lane", "begin-anew", "1", "--config", config])
    assert result.exit_code == 0 and "lane 1 of" in result.output, result.output
    assert asyncio.run(permitted(redis.url, name)) == [False, True, False]
    left_s = asyncio.run(ask(redis.url, "TTL", f"{name}:anew:1"))
    assert 0 < left_s <= 600


def test_server_that_does_not_answer_is_named(tmp_path: Path) -> None:
    config = configured(tmp_path, f"redis://127.0.0.1:{free_port()}/0")
    result = CliRunner().invoke(cli, ["lane", "begin-anew", "1", "--config", config])
    assert result.exit_code == 1 and "Redis: ConnectionError" in result.output
