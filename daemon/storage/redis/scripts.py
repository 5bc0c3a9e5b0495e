"""The Lua scripts: every step of a lane is one of them, on one hash slot.

Scripts, not functions: EVALSHA names a script by its content, so that two versions of the daemon
share a server, and nothing has to be loaded on each master.
"""

from dataclasses import dataclass
from hashlib import sha1
from importlib.resources import files
from typing import Final


@dataclass(frozen=True)
class Script:
    """A Lua script and the digest under which servers cache it."""

    text: str
    digest: str


def _script(name: str) -> Script:
    text = files(__package__).joinpath(name).read_text(encoding="utf-8")
    return Script(text, sha1(text.encode(), usedforsecurity=False).hexdigest())


CLAIM: Final = _script("claim.lua")
ANEW: Final = _script("anew.lua")
VERIFY: Final = _script("verify.lua")
COMMIT: Final = _script("commit.lua")
LOAD: Final = _script("load.lua")
TOUCH: Final = _script("touch.lua")
MARK: Final = _script("mark.lua")
READ: Final = _script("read.lua")
SWEEP: Final = _script("sweep.lua")
