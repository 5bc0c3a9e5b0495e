"""Which regular expressions a configuration may have, and how long a search can take. Pure.

Python's matcher goes back. A repeat inside of a repeat can be divided in exponentially many ways,
and records come from strangers: such a pattern of a configuration is refused.
"""

import math
import re
from collections.abc import Iterator
from re import _constants  # type: ignore[attr-defined]  # the tree has no public reader
from re import _parser  # type: ignore[attr-defined]  # the tree has no public reader
from typing import Any, Final

MOST_CHARACTERS: Final = 1000
FEW_TIMES: Final = 8
"""A repeat of at most so many times is none that multiplies."""
_REPEATS: Final = (_constants.MAX_REPEAT, _constants.MIN_REPEAT)
GROUP_STEPS: Final = 16
"""A repeat of a group takes so many times as long as one of a character."""
_CHARACTERS: Final = (_constants.LITERAL, _constants.NOT_LITERAL, _constants.IN, _constants.ANY)
_BEGINNINGS: Final = (_constants.AT_BEGINNING, _constants.AT_BEGINNING_STRING)


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


def most_steps(pattern: str, characters: int) -> float:
    """Return how many ways to match a pattern without a fault a search of a text of so many
    characters tries at most, a repeat of a group weighted with what it costs: 1 to 8 ns each.

    A repeat without a bound takes any part of the text, so k of them in a row divide n characters
    in (n + k over k) ways. The place where a match begins is one more of them, unless the pattern
    is bound to the beginning.
    """
    tree = _parser.parse(pattern)
    is_bound = len(tree) > 0 and tree[0][0] is _constants.AT and tree[0][1] in _BEGINNINGS
    try:
        ways, repeats = _ways(tree)
        repeats += 0 if is_bound else 1
        return ways * math.comb(characters + repeats, repeats)
    except OverflowError:
        return math.inf


def _ways(tree: Any) -> tuple[float, int]:
    """The ways through a tree: those that its choices make, and how many repeats without a bound
    stand in a row."""
    ways, repeats = 1.0, 0
    for operation, argument in tree:
        bodies = [_ways(body) for body in _inner(argument)]
        if operation in (_constants.BRANCH, _constants.GROUPREF_EXISTS):
            made, row = sum(one for one, _ in bodies), max(n for _, n in bodies)
        else:
            made, row = math.prod(one for one, _ in bodies), sum(n for _, n in bodies)
        if operation in (*_REPEATS, _constants.POSSESSIVE_REPEAT):
            least, most, body = argument
            if most - least > FEW_TIMES:
                row += 1
            else:
                made, row = made**most * (most - least + 1), row * most
            made *= 1 if _is_character(body) else GROUP_STEPS
        ways, repeats = ways * made, repeats + row
    return float(ways), repeats


def _is_character(body: Any) -> bool:
    """Whether the body of a repeat is one character, a set of them or a dot: these are fast."""
    return len(body) == 1 and body[0][0] in _CHARACTERS


def literals(pattern: str) -> str:
    """Return the characters that a pattern asks for one by one, at any depth; not those of sets."""
    operations = _operations(_parser.parse(pattern))
    return "".join(chr(code) for operation, code in operations if operation is _constants.LITERAL)


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
