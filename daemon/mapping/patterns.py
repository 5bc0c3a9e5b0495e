"""Regular expressions of a configuration: only those whose time is bounded. Pure.

Python's matcher goes back. A repeat inside of a repeat can be divided in exponentially many ways,
and records come from strangers: such a pattern is refused.
"""

import re
from collections.abc import Iterator
from re import _constants, _parser  # type: ignore[attr-defined]  # the tree has no public reader
from typing import Any, Final

MOST_CHARACTERS: Final = 1000
MATCHED_CHARACTERS: Final = 1024
"""So much of a text is searched: the longest text that a lone repeat has to try."""
FEW_TIMES: Final = 8
"""A repeat of at most so many times is none that multiplies."""
_REPEATS: Final = (_constants.MAX_REPEAT, _constants.MIN_REPEAT)


def pattern_fault(pattern: str) -> str | None:
    """Return the rule that a pattern breaks, for people; None for one that can be used."""
    if len(pattern) > MOST_CHARACTERS:
        return f"the pattern must have at most {MOST_CHARACTERS} characters"
    try:
        re.compile(pattern)
        tree = _parser.parse(pattern)
    except (re.error, RecursionError, OverflowError) as error:
        return f"is no regular expression: {error}"
    if any(_multiplies(body) for body in _repeated(tree)):
        return (
            "a repeat inside of a repeat, or an alternative inside of one, can take exponential"
            " time: write it without"
        )
    return None


def _repeated(tree: Any) -> Iterator[Any]:
    """What the pattern repeats, at any depth."""
    for operation, argument in _operations(tree):
        if operation in _REPEATS and argument[1] > FEW_TIMES:
            yield argument[2]


def _multiplies(body: Any) -> bool:
    """Whether there is more than one way to match the body of a repeat."""
    return any(
        operation is _constants.BRANCH
        or operation is _constants.GROUPREF
        or (operation in _REPEATS and argument[0] != argument[1])
        for operation, argument in _operations(body)
    )


def _operations(tree: Any) -> Iterator[tuple[Any, Any]]:
    waiting = [tree]
    while waiting:
        for operation, argument in waiting.pop():
            yield operation, argument
            waiting += _inner(argument)


def _inner(argument: Any) -> list[Any]:
    """The trees in the argument of an operation."""
    if isinstance(argument, _parser.SubPattern):
        return [argument]
    if isinstance(argument, (tuple, list)):
        return [inner for one in argument for inner in _inner(one)]
    return []
