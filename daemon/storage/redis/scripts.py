"""The Lua scripts: every step of a lane is one of them, on one hash slot.

Scripts, not functions: EVALSHA names a script by its content, so that two versions of the daemon
share a server, and nothing has to be loaded on each master.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import sha1
from importlib.resources import files
from typing import Any, Final

from redis.exceptions import NoScriptError

from .client import Client


@dataclass(frozen=True)
class Script:
    """A Lua script and the digest under which servers cache it."""

    text: str
    digest: str


def _script(name: str) -> Script:
    text = files(__package__).joinpath(name).read_text(encoding="utf-8")
    return Script(text, sha1(text.encode(), usedforsecurity=False).hexdigest())


CLAIM: Final = _script("claim.lua")
LAYOUT: Final = _script("layout.lua")
ANEW: Final = _script("anew.lua")
VERIFY: Final = _script("verify.lua")
COMMIT: Final = _script("commit.lua")
LOAD: Final = _script("load.lua")
TOUCH: Final = _script("touch.lua")
MARK: Final = _script("mark.lua")
READ: Final = _script("read.lua")
SWEEP: Final = _script("sweep.lua")


async def evaluate(
    client: Client, script: Script, keys: Sequence[str], arguments: Sequence[Any]
) -> Any:
    """Run a script; returns its answer. The caller handles the errors of the connection."""
    try:
        return await client.evalsha(script.digest, len(keys), *keys, *arguments)
    except NoScriptError:
        # Nothing ran, so it is safe to send the text.
        return await client.eval(script.text, len(keys), *keys, *arguments)


def pairs_of(flat: Sequence[bytes]) -> dict[str, bytes]:
    """Return a hash from the flat list that scripts answer."""
    return {key.decode(): value for key, value in zip(flat[::2], flat[1::2], strict=True)}
