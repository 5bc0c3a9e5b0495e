"""What an extra of the installed package needs, and how this installation comes to have it. Pure,
as imports are: looks at what is installed.
"""

import re
import sys
from importlib.metadata import requires
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
    return (
        f'needs the extra "{extra}", which this installation lacks:'
        f" {sys.executable} -m pip install {needed}"
    )
