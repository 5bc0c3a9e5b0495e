"""The daemon as it is, with a task beside it that tells how many tasks there are.

python watched.py FILE run --config …
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


async def tell(path: Path) -> None:
    while True:
        path.write_text(json.dumps(len(asyncio.all_tasks()) - 1))
        await asyncio.sleep(EVERY_S)


async def beside(main: Coroutine[Any, Any, Any], path: Path) -> Any:
    telling = asyncio.create_task(tell(path))
    try:
        return await main
    finally:
        telling.cancel()


if __name__ == "__main__":
    file = Path(sys.argv.pop(1)).absolute()
    asyncio.run = lambda main, **more: run(beside(main, file), **more)
    cli.main()
