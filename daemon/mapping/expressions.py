"""The grammar of a mapping as values: a source, its tables, and their JMESPath expressions, which
are checked once, when the configuration is read. Pure.

What the library finds out only while an expression runs (an unknown function, a wrong number of
arguments, a pattern that is none) is found here, so that a record can no longer be the first to
meet it. `config/sections/sources.py` reads a mapping from a configuration; `records.py` applies it
to records.
"""

import difflib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import timedelta, timezone
from functools import cached_property, lru_cache
from typing import Any, Final, TypeAlias, final
from zoneinfo import ZoneInfo

import jmespath.exceptions
import jmespath.parser

from ..events import InvalidField
from ..schemas import AUTO as ANY_FRAMING, JSON, Schema
from .functions import MATCHED_CHARACTERS, Interpreter, RecordFunctions, Surroundings, TooMuchWork
from .regular_expressions import most_steps, pattern_fault

Node: TypeAlias = dict[str, Any]
"""A node of the syntax tree: `type`, `children`, and perhaps `value`."""

SHOWN_CHARACTERS: Final = 80
MOST_CHARACTERS: Final = 4096
LEAST_SIMILARITY: Final = 0.6
MOST_DEPTH: Final = 100
"""Most members in a row, or nodes below one another: each takes some of the interpreter's stack."""
_TOO_DEEP: Final = f"must have at most {MOST_DEPTH} members in a row, or parts within one another"
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
    for node, depth in _nodes(tree):
        if depth > MOST_DEPTH:
            raise InvalidExpression(_TOO_DEEP)
        if node["type"] == "function_expression":
            _check_call(node)
        elif node["type"] == "literal":
            _check_text(node["value"])
    return Expression(text, tree)


def slow_part(tree: Node) -> str | None:
    """Return what makes an expression slow by nature: the function or the kind of node that sorts,
    or visits all members of objects; None for other expressions."""
    for node, _ in _nodes(tree):
        if node["type"] == "function_expression" and node["value"] in _SLOW_FUNCTIONS:
            return f"{node['value']}(…)"
        if node["type"] == "value_projection":
            return "*"
    return None


def calls(tree: Node, function: str) -> bool:
    """Whether an expression calls a function."""
    called = (node["value"] for node, _ in _nodes(tree) if node["type"] == "function_expression")
    return function in called


def compared(tree: Node) -> Iterator[Node]:
    """Each path whose value an expression compares with a literal."""
    for node, _ in _nodes(tree):
        if node["type"] == "comparator" and node["children"][1]["type"] == "literal":
            if is_path(node["children"][0]):
                yield node["children"][0]


def is_path(tree: Node) -> bool:
    """Whether an expression is the name of a field, or several after one another."""
    return all(node["type"] in ("field", "subexpression") for node, _ in _nodes(tree))


def path_text(path: Node) -> str:
    """A path of fields as it is written."""
    if path["type"] == "field":
        return str(path["value"])
    return ".".join(map(path_text, path["children"]))


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
    except RecursionError:
        raise InvalidExpression(_TOO_DEEP) from None
    except ValueError as error:
        raise _no_expression(str(error)) from None
    return tree


def _no_expression(why: str) -> InvalidExpression:
    return InvalidExpression(f"is no JMESPath expression: {why}")


def _nodes(tree: Node) -> Iterator[tuple[Node, int]]:
    """(node, how many are above it)."""
    waiting = [(tree, 0)]
    while waiting:
        node, depth = waiting.pop()
        yield node, depth
        in_a_row = node["type"] == "subexpression"
        waiting += [
            (child, depth + 1 + at * in_a_row)
            for at, child in enumerate(node["children"])
            if isinstance(child, dict)  # a slice has numbers in place of nodes
        ]


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


_TOO_MUCH: Final = "takes more steps than are allowed for a record of this size"


@final
class Evaluation:
    """Evaluates expressions about one record. Work adds up over all of them."""

    def __init__(self, around: Surroundings, size: int) -> None:
        self._around, self._size = around, size
        self._interpreter = Interpreter(around, size)

    @property
    def record_ms(self) -> int | None:
        """The time that the log gave the record; None if it gave none."""
        return self._around.time_ms

    @property
    def lacks_queries(self) -> bool:
        """Whether no query can be known, as the record is broken there."""
        return self._around.lacks_queries

    @cached_property
    def beside(self) -> "Evaluation":
        """One whose work adds up apart: of values that must not cost the record anything."""
        return Evaluation(self._around, self._size)

    @cached_property
    def passing_on(self) -> "Evaluation":
        """Another one: of attributes that are only passed on."""
        return Evaluation(self._around, self._size)

    def find(self, expression: Expression, value: object) -> Any:
        """Return what the expression finds in a value. Raises InvalidField, and nothing else."""
        try:
            return self._interpreter.visit(expression.tree, value)
        except InvalidField as error:
            raise InvalidField(error.reason, f"{expression.name}: {error.detail}") from error
        except TooMuchWork as error:
            raise InvalidField("too_large", f"{expression.name}: {_TOO_MUCH}") from error
        except jmespath.exceptions.JMESPathTypeError as error:
            raise InvalidField("wrong_type", f"{expression.name}: {_words(error)}") from error
        except Exception as error:
            # Whatever the library's functions raise for odd values (an overflow, a recursion that
            # is too deep) refuses this event: no record may stop the others.
            detail = f"{expression.name}: cannot be computed: {type(error).__name__}"
            raise InvalidField("wrong_type", detail) from error

    def is_true(self, expression: Expression | None, value: object) -> bool:
        """Whether a condition holds; none always does. Null, false and what is empty do not."""
        if expression is None:
            return True
        found = self.find(expression, value)
        return found is not None and found is not False and found not in ("", [], {})


def _words(error: Any) -> str:
    expected = " or ".join(map(str, error.expected_types))
    return f"{error.function_name}(): needs {expected}, not {error.actual_type}"


SKIP: Final = "skip"
EMPTY: Final = "empty"
NO_ITEMS: Final = (SKIP, EMPTY)
"""What an impression is whose `items` gives null: no list that counts, or one without results."""
CLOUDEVENTS: Final = "cloudevents"
ENVELOPES: Final = ("none", CLOUDEVENTS)
AUTO: Final = "auto"
UNITS: Final[Mapping[str, int]] = {"s": 10**9, "ms": 10**6, "us": 10**3, "ns": 1}
"""Unit of a time that is a number → nanoseconds."""
ALL_MEMBERS: Final = "*"
"""The attribute that stands for every scalar member of an object."""

Zone: TypeAlias = ZoneInfo | timezone
Id: TypeAlias = tuple[Expression, ...]
"""The expressions whose values make an id, joined by `|`."""


@dataclass(frozen=True)
class TimeFormat:
    """How times are written: `auto`, one of UNITS, or a format of strptime."""

    name: str = AUTO
    zone: Zone = timezone(timedelta(0))
    """The time zone of a format without `%z`."""


@dataclass(frozen=True)
class ExperimentsTable:
    """The experiments of an impression, in one of three shapes."""

    variants: Mapping[str, Expression] | None = None
    """Experiment → its variant."""
    map: Expression | None = None
    """An object of variants by experiment."""
    list: Expression | None = None
    """An array of objects; in each, `name` and `variant`."""
    name: Expression | None = None
    variant: Expression | None = None


NO_EXPERIMENTS: Final = ExperimentsTable(variants={})


@dataclass(frozen=True)
class ImpressionTable:
    """What is an impression, and where its fields are."""

    id: Id
    time: Expression
    items: Expression
    where: Expression | None = None
    item: Expression | None = None
    """Relative to an element of `items`, as are `rank`, `grade` and `team`; None: elements are
    ids."""
    rank: Expression | None = None
    rank_base: int = 1
    no_items: str = SKIP
    first_rank: Expression | None = None
    page: Expression | None = None
    page_size: Expression | None = None
    page_base: int = 0
    grade: Expression | None = None
    team: Expression | None = None
    visitor: Expression | None = None
    user: Expression | None = None
    attributes: Mapping[str, Expression] | None = None
    experiments: ExperimentsTable = NO_EXPERIMENTS
    query: Expression | None = None


@dataclass(frozen=True)
class FeedbackTable:
    """What is feedback, and where its fields are."""

    time: Expression
    where: Expression | None = None
    id: Id | None = None
    kind: Expression | None = None
    kinds: Mapping[str, str] | None = None
    """Kind in the record → kind of feedback; what does not stand here is none. None: the text."""
    items: Expression | None = None
    """One feedback for each element; None: the event itself is the element."""
    item: Expression | None = None
    """Relative to the element, as are `item_id`, `rank` and `grade`."""
    item_id: Expression | None = None
    """The element's own impression id; asked before `id`."""
    rank: Expression | None = None
    rank_base: int = 1
    grade: Expression | None = None
    visitor: Expression | None = None


@dataclass(frozen=True)
class Drop:
    """A rule for what is left out, and the reason under which it is counted."""

    reason: str
    where: Expression | None = None
    value: Expression | None = None
    values: frozenset[str] = frozenset()
    """The values of `value` that are left out."""
    values_file: str | None = None
    """The file that they came from."""


@dataclass(frozen=True)
class OwnSchema:
    """The schema of all records of a topic, out of a file."""

    digest: str
    """Of what the file says."""
    message: str | None = None
    """Of Protobuf: the full name of the message."""
    parsed: Schema | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True)
class MappedSource:
    """One topic and how its records become events."""

    topic: str
    reader: str | None = None
    """The event format whose reader takes the records, in place of tables."""
    codec: str = JSON
    framing: str = ANY_FRAMING
    schema: OwnSchema | None = None
    """Of Avro and Protobuf; None: frames name the schemas."""
    envelope: str = "none"
    each: Expression | None = None
    """What of a record is an event: an object, or an array of them; None: the record."""
    time: TimeFormat = TimeFormat()
    impressions: tuple[ImpressionTable, ...] = ()
    feedback: tuple[FeedbackTable, ...] = ()
    drops: tuple[Drop, ...] = ()
    key: str = "sources[0]"
    """Where it stands in the configuration."""
