"""Renders Helm templates in the part of the language that this chart uses; the rest is an error.

A substitute where Helm cannot be installed: `{{if}}`, `{{with}}`, `{{range}}`, `{{define}}`,
`{{include}}`, variables, pipelines, and the functions of one table.
"""

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from tests.deploy.template_functions import FUNCTIONS, TemplateError, text_of

_ACTION: Final = re.compile(r"\{\{(-\s)?(.*?)(\s-)?\}\}", re.DOTALL)
_WORD: Final = re.compile(r'"(?:[^"\\]|\\.)*"|:=|[|(),]|\$?[\w]*(?:\.\w+)+|\$\w*|\.|-?\d+|\w+')

Scope: TypeAlias = dict[str, Any]


@dataclass(frozen=True)
class Block:
    """A control structure: its head (`if x`, `range $i, $x := y` …), its body and its else
    branch."""

    head: str
    body: tuple["Node", ...]
    otherwise: tuple["Node", ...]


Node: TypeAlias = str | tuple[str, str] | Block
"""Text, ("action", expression), or a block."""


class Chart:
    """Templates by name, and the files that they may read."""

    def __init__(self, templates: Mapping[str, str], files: Mapping[str, str]) -> None:
        self.files = files
        self._defined: dict[str, tuple[Node, ...]] = {}
        self._bodies = {name: self._parse(text) for name, text in templates.items()}

    def render(self, root: Mapping[str, Any]) -> dict[str, str]:
        """Name → text of every template whose name does not begin with `_`."""
        context = {**root, "Files": self}
        return {
            name: self._rendered(body, context, {"$": context})
            for name, body in self._bodies.items()
            if not name.startswith("_")
        }

    def include(self, name: str, context: Any) -> str:
        """The text of a named template."""
        if name not in self._defined:
            raise TemplateError(f"no template {name!r} is defined")
        return self._rendered(self._defined[name], context, {"$": context})

    def _parse(self, text: str) -> tuple[Node, ...]:
        parts = list(_parts(text))
        nodes, rest, _ = self._nodes(parts, 0)
        if rest != len(parts):
            raise TemplateError(f"{parts[rest]} has no opening action")
        return nodes

    def _nodes(
        self, parts: Sequence[str | tuple[str, str]], index: int
    ) -> tuple[tuple[Node, ...], int, str]:
        """Nodes up to the `end` or `else` of an outer block, the index of that, and its text."""
        nodes: list[Node] = []
        while index < len(parts):
            part = parts[index]
            if isinstance(part, str):
                nodes.append(part)
                index += 1
                continue
            keyword = part[1].split(maxsplit=1)[0]
            if keyword in ("end", "else"):
                return tuple(nodes), index, part[1]
            if keyword in ("if", "with", "range", "define"):
                block, index = self._block(parts, index + 1, part[1])
                if keyword == "define":
                    self._defined[json.loads(part[1].split()[1])] = block.body
                else:
                    nodes.append(block)
                continue
            nodes.append(part)
            index += 1
        return tuple(nodes), index, ""

    def _block(
        self, parts: Sequence[str | tuple[str, str]], index: int, head: str
    ) -> tuple[Block, int]:
        body, index, closing = self._nodes(parts, index)
        otherwise: tuple[Node, ...] = ()
        if closing.startswith("else "):
            inner, index = self._block(parts, index + 1, closing.removeprefix("else "))
            return Block(head, body, (inner,)), index
        if closing == "else":
            otherwise, index, closing = self._nodes(parts, index + 1)
        if closing != "end":
            raise TemplateError(f"{head}: end is missing")
        return Block(head, body, otherwise), index + 1

    def _rendered(self, nodes: Sequence[Node], dot: Any, scope: Scope) -> str:
        return "".join(self._piece(node, dot, scope) for node in nodes)

    def _piece(self, node: Node, dot: Any, scope: Scope) -> str:
        if isinstance(node, str):
            return node
        if isinstance(node, Block):
            return self._controlled(node, dot, scope)
        words = _words(node[1])
        if ":=" in words:
            scope[words[0]] = Evaluation(self, words[2:], dot, scope).pipeline()
            return ""
        return text_of(Evaluation(self, words, dot, scope).pipeline())

    def _controlled(self, block: Block, dot: Any, scope: Scope) -> str:
        keyword, _, rest = block.head.partition(" ")
        words = _words(rest)
        names = words[: words.index(":=")] if ":=" in words else []
        value = Evaluation(self, words[len(names) + 1 :] if names else words, dot, scope).pipeline()
        if not value:
            return self._rendered(block.otherwise, dot, scope)
        if keyword == "range":
            return self._repeated(block, [name for name in names if name != ","], value, scope)
        return self._rendered(block.body, value if keyword == "with" else dot, dict(scope))

    def _repeated(self, block: Block, names: list[str], value: Any, scope: Scope) -> str:
        pairs = sorted(value.items()) if isinstance(value, Mapping) else list(enumerate(value))
        text = ""
        for pair in pairs:
            own = dict(zip(names, pair[-len(names) :], strict=True)) if names else {}
            text += self._rendered(block.body, pair[1], {**scope, **own})
        return text


class Evaluation:
    """Evaluates one expression from left to right."""

    def __init__(self, chart: Chart, words: list[str], dot: Any, scope: Scope) -> None:
        self._chart, self._words, self._dot, self._scope = chart, words, dot, scope
        self._index = 0

    def pipeline(self) -> Any:
        """The value of a pipeline: commands joined by `|`."""
        value = self._command(())
        while self._next() == "|":
            self._index += 1
            value = self._command((value,))
        return value

    def _next(self) -> str:
        return self._words[self._index] if self._index < len(self._words) else ""

    def _command(self, piped: tuple[Any, ...]) -> Any:
        name = self._next()
        if name in FUNCTIONS or name == "include":
            self._index += 1
            function = self._chart.include if name == "include" else FUNCTIONS[name]
            return function(*self._operands(), *piped)
        value, *arguments = self._operands()
        if callable(value):
            return value(*arguments)
        if arguments or piped:
            raise TemplateError(f"{name}: is not a function: {self._words}")
        return value

    def _operands(self) -> list[Any]:
        found = []
        while self._next() not in ("", "|", ")"):
            found.append(self._operand())
        return found

    def _operand(self) -> Any:
        word = self._next()
        self._index += 1
        if word == "(":
            value = self.pipeline()
            if self._next() != ")":
                raise TemplateError(f") is missing in {self._words}")
            self._index += 1
            return self._fields(value, self._trailing())
        if word.startswith('"'):
            return json.loads(word)
        if re.fullmatch(r"-?\d+", word):
            return int(word)
        if word in ("true", "false"):
            return word == "true"
        head, _, path = word.partition(".")
        if head and head not in self._scope:
            raise TemplateError(f"{word}: unknown function or variable")
        return self._fields(self._scope[head] if head else self._dot, path)

    def _trailing(self) -> str:
        """`.field` directly after a parenthesis."""
        if self._next().startswith(".") and self._next() != ".":
            self._index += 1
            return self._words[self._index - 1].removeprefix(".")
        return ""

    def _fields(self, value: Any, path: str) -> Any:
        for name in filter(None, path.split(".")):
            if isinstance(value, Chart):
                value = {"Glob": _glob(value.files), "Get": value.files.__getitem__}[name]
            elif isinstance(value, Mapping):
                if name not in value:
                    raise TemplateError(f"{path}: no field {name}")
                value = value[name]
            else:
                raise TemplateError(f"{path}: {value!r} has no {name}")
        return value


def _parts(text: str) -> Iterator[str | tuple[str, str]]:
    """Texts and actions without comments; whitespace is trimmed where an action has `-`."""
    index, trim = 0, False
    for found in _ACTION.finditer(text):
        before = text[index : found.start()]
        before = before.lstrip() if trim else before
        yield before.rstrip() if found[1] else before
        if not found[2].startswith("/*"):
            yield "action", found[2].strip()
        index, trim = found.end(), bool(found[3])
    yield text[index:].lstrip() if trim else text[index:]


def _words(expression: str) -> list[str]:
    words = _WORD.findall(expression)
    if "".join(words) != re.sub(r'("(?:[^"\\]|\\.)*")|\s+', r"\1", expression):
        raise TemplateError(f"{expression}: contains an unsupported token")
    return words


def _glob(files: Mapping[str, str]) -> Callable[[str], dict[str, str]]:
    def glob(pattern: str) -> dict[str, str]:
        rule = re.compile(re.escape(pattern).replace(r"\*", "[^/]*"))
        return {name: text for name, text in files.items() if rule.fullmatch(name)}

    return glob
