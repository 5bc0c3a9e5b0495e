"""JMESPath expressions: checked once, when the configuration is read. Pure.

What the library finds out only while an expression runs (an unknown function, a wrong number of
arguments, a pattern that is none) is found here, so that a record can no longer be the first to
meet it.
"""

import difflib
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, Final, TypeAlias

import jmespath.exceptions
import jmespath.parser

from .functions import RecordFunctions
from .patterns import MATCHED_CHARACTERS, most_steps, pattern_fault

Node: TypeAlias = dict[str, Any]
"""A node of the syntax tree: `type`, `children`, and perhaps `value`."""

SHOWN_CHARACTERS: Final = 80
MOST_CHARACTERS: Final = 4096
LEAST_SIMILARITY: Final = 0.6
MOST_STEPS: Final = 200_000_000
"""Of a search: two repeats without a bound in a row, anywhere in a text. A text made to hurt takes
about a second at most."""
_TOO_MANY_STEPS: Final = (
    f"the repeats in a row can take too long on a text of {MATCHED_CHARACTERS} characters: begin"
    " the pattern with ^, or write fewer of them"
)
_SLOW_FUNCTIONS: Final = frozenset("map max_by min_by sort sort_by".split())


class InvalidExpression(ValueError):
    """A text is no expression that can be used; its message is the rule, for people."""


@dataclass(frozen=True)
class Expression:
    """One expression of a configuration. Equal texts at the same key are equal."""

    text: str
    tree: Node = field(compare=False, repr=False)
    key: str = ""
    """Where it stands: `sources[0].impression.time`."""

    @property
    def name(self) -> str:
        """What a refusal calls it: the key and the text, on one line."""
        text = " ".join(self.text.split())
        if len(text) > SHOWN_CHARACTERS:
            text = text[: SHOWN_CHARACTERS - 1] + "…"
        return f"{self.key} ({text})"


@lru_cache(maxsize=1024)
def expression(text: str) -> Expression:
    """Return the expression of a text. Raises InvalidExpression."""
    if len(text) > MOST_CHARACTERS:
        raise InvalidExpression(f"must have at most {MOST_CHARACTERS} characters")
    tree = _parsed(text)
    for node in _nodes(tree):
        if node["type"] == "function_expression":
            _check_call(node)
        elif node["type"] == "literal":
            _check_text(node["value"])
    return Expression(text, tree)


def slow_part(tree: Node) -> str | None:
    """Return what makes an expression slow by nature: the function or the kind of node that sorts,
    or visits all members of objects; None for other expressions."""
    for node in _nodes(tree):
        if node["type"] == "function_expression" and node["value"] in _SLOW_FUNCTIONS:
            return f"{node['value']}(…)"
        if node["type"] == "value_projection":
            return "*"
    return None


def _parsed(text: str) -> Node:
    try:
        # A parser of its own: the shared one drops entries of its cache at random.
        tree: Node = jmespath.parser.Parser().parse(text).parsed
    except jmespath.exceptions.IncompleteExpressionError:
        raise _no_expression(f"incomplete (column {len(text)})") from None
    except jmespath.exceptions.EmptyExpressionError:
        raise _no_expression("it is empty") from None
    except jmespath.exceptions.LexerError as error:
        raise _no_expression(f"{error.message} (column {error.lexer_position})") from None
    except jmespath.exceptions.ParseError as error:
        token = f"unexpected {error.token_value!r} (column {error.lex_position})"
        raise _no_expression(token) from None
    except (ValueError, RecursionError) as error:
        raise _no_expression(str(error)) from None
    return tree


def _no_expression(why: str) -> InvalidExpression:
    return InvalidExpression(f"is no JMESPath expression: {why}")


def _nodes(tree: Node) -> Iterator[Node]:
    waiting = [tree]
    while waiting:
        node = waiting.pop()
        yield node
        # A slice has numbers in place of nodes.
        waiting += [child for child in node["children"] if isinstance(child, dict)]


def _check_call(node: Node) -> None:
    name, arguments, table = node["value"], node["children"], RecordFunctions.FUNCTION_TABLE
    if name not in table:
        near = difflib.get_close_matches(name, table, 1, LEAST_SIMILARITY)
        suggestion = f": did you mean {near[0]}?" if near else ""
        raise InvalidExpression(f"unknown function {name}{suggestion}")
    signature = table[name]["signature"]
    least = len(signature)
    variadic = bool(signature) and bool(signature[-1].get("variadic"))
    if len(arguments) < least or (len(arguments) > least and not variadic):
        needed = f"at least {least}" if variadic else str(least)
        raise InvalidExpression(f"{name}(): needs {needed} arguments, not {len(arguments)}")
    if name == "regex":
        _check_pattern(arguments[1])
    if name == "split" and arguments[1]["type"] == "literal" and not arguments[1]["value"]:
        raise InvalidExpression("split(): the separator must not be empty")


def _check_pattern(node: Node) -> None:
    if node["type"] != "literal" or not isinstance(node["value"], str):
        raise InvalidExpression("regex(): the pattern must be a text, such as 'bot|crawl'")
    fault = pattern_fault(node["value"])
    if fault is not None:
        raise InvalidExpression(f"regex(): {fault}")
    if most_steps(node["value"], MATCHED_CHARACTERS) > MOST_STEPS:
        raise InvalidExpression(f"regex(): {_TOO_MANY_STEPS}")


def _check_text(value: object) -> None:
    try:
        str(value).encode()
    except UnicodeEncodeError:
        raise InvalidExpression(
            "a text in it is no Unicode: it has half of a surrogate pair"
        ) from None
