"""The daemon, with an additional task that writes the number of asyncio tasks to a file.

python task_counter.py FILE run --config …
"""

import asyncio
import json
import sys
from collections.abc import Coroutine
from pathlib import Path
from typing import Any

from relevanced.daemon.commands import cli

EVERY_S = 0.2
run = asyncio.run


async def write_count(path: Path) -> None:
    while True:
        path.write_text(json.dumps(len(asyncio.all_tasks()) - 1))
        await asyncio.sleep(EVERY_S)


async def with_counter(main: Coroutine[Any, Any, Any], path: Path) -> Any:
    counting = asyncio.create_task(write_count(path))
    try:
        return await main
    finally:
        counting.cancel()


if __name__ == "__main__":
    file = Path(sys.argv.pop(1)).absolute()
    asyncio.run = lambda main, **more: run(with_counter(main, file), **more)
    cli.main()
