"""Renders a Helm chart as far as this project's chart uses the language; anything else is an error.

A stand-in where Helm cannot be installed: `{{if}}`, `{{with}}`, `{{range}}`, `{{define}}`,
`{{include}}`, variables, pipelines, and the functions of one table.
"""

import hashlib
import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

import yaml

_ACTION: Final = re.compile(r"\{\{(-\s)?(.*?)(\s-)?\}\}", re.DOTALL)
_WORD: Final = re.compile(r'"(?:[^"\\]|\\.)*"|:=|[|(),]|\$?[\w]*(?:\.\w+)+|\$\w*|\.|-?\d+|\w+')

Scope: TypeAlias = dict[str, Any]


class TemplateError(Exception):
    """The template cannot be rendered."""


@dataclass(frozen=True)
class Block:
    """A control structure: its head (`if x`, `range $i, $x := y` …), parts, and what is in them."""

    head: str
    body: tuple["Node", ...]
    otherwise: tuple["Node", ...]


Node: TypeAlias = str | tuple[str, str] | Block
"""Text, ("action", expression), or a block."""


class Chart:
    """Templates by name, the files that they may read, and the named templates among them."""

    def __init__(self, templates: Mapping[str, str], files: Mapping[str, str]) -> None:
        self.files = files
        self._defined: dict[str, tuple[Node, ...]] = {}
        self._bodies = {name: self._parse(text) for name, text in templates.items()}

    def render(self, root: Mapping[str, Any]) -> dict[str, str]:
        """Name → text of each template that is no helper."""
        whole = {**root, "Files": self}
        return {
            name: self._rendered(body, whole, {"$": whole})
            for name, body in self._bodies.items()
            if not name.startswith("_")
        }

    def include(self, name: str, context: Any) -> str:
        """What a named template gives."""
        if name not in self._defined:
            raise TemplateError(f"no template {name!r} is defined")
        return self._rendered(self._defined[name], context, {"$": context})

    def _parse(self, text: str) -> tuple[Node, ...]:
        parts = list(_parts(text))
        nodes, rest, _ = self._nodes(parts, 0)
        if rest != len(parts):
            raise TemplateError(f"{parts[rest]} has no beginning")
        return nodes

    def _nodes(
        self, parts: Sequence[str | tuple[str, str]], place: int
    ) -> tuple[tuple[Node, ...], int, str]:
        """Nodes up to an `end` or `else` that is not theirs, its place, and its text."""
        nodes: list[Node] = []
        while place < len(parts):
            part = parts[place]
            if isinstance(part, str):
                nodes.append(part)
                place += 1
                continue
            keyword = part[1].split(maxsplit=1)[0]
            if keyword in ("end", "else"):
                return tuple(nodes), place, part[1]
            if keyword in ("if", "with", "range", "define"):
                block, place = self._block(parts, place + 1, part[1])
                if keyword == "define":
                    self._defined[json.loads(part[1].split()[1])] = block.body
                else:
                    nodes.append(block)
                continue
            nodes.append(part)
            place += 1
        return tuple(nodes), place, ""

    def _block(
        self, parts: Sequence[str | tuple[str, str]], place: int, head: str
    ) -> tuple[Block, int]:
        body, place, closing = self._nodes(parts, place)
        otherwise: tuple[Node, ...] = ()
        if closing.startswith("else "):
            inner, place = self._block(parts, place + 1, closing.removeprefix("else "))
            return Block(head, body, (inner,)), place
        if closing == "else":
            otherwise, place, closing = self._nodes(parts, place + 1)
        if closing != "end":
            raise TemplateError(f"{head}: has no end")
        return Block(head, body, otherwise), place + 1

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
        return _shown(Evaluation(self, words, dot, scope).pipeline())

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
    """One expression, read from left to right."""

    def __init__(self, chart: Chart, words: list[str], dot: Any, scope: Scope) -> None:
        self._chart, self._words, self._dot, self._scope = chart, words, dot, scope
        self._place = 0

    def pipeline(self) -> Any:
        """The value of commands that hand theirs on with `|`."""
        value = self._command(())
        while self._next() == "|":
            self._place += 1
            value = self._command((value,))
        return value

    def _next(self) -> str:
        return self._words[self._place] if self._place < len(self._words) else ""

    def _command(self, piped: tuple[Any, ...]) -> Any:
        name = self._next()
        if name in FUNCTIONS or name == "include":
            self._place += 1
            function = self._chart.include if name == "include" else FUNCTIONS[name]
            return function(*self._operands(), *piped)
        value, *given = self._operands()
        if callable(value):
            return value(*given)
        if given or piped:
            raise TemplateError(f"{name}: is no function: {self._words}")
        return value

    def _operands(self) -> list[Any]:
        found = []
        while self._next() not in ("", "|", ")"):
            found.append(self._operand())
        return found

    def _operand(self) -> Any:
        word = self._next()
        self._place += 1
        if word == "(":
            value = self.pipeline()
            if self._next() != ")":
                raise TemplateError(f"no ) in {self._words}")
            self._place += 1
            return self._fields(value, self._trailing())
        if word.startswith('"'):
            return json.loads(word)
        if re.fullmatch(r"-?\d+", word):
            return int(word)
        if word in ("true", "false"):
            return word == "true"
        head, _, path = word.partition(".")
        if head and head not in self._scope:
            raise TemplateError(f"{word}: is neither a function nor a variable here")
        return self._fields(self._scope[head] if head else self._dot, path)

    def _trailing(self) -> str:
        """`.field` right behind a parenthesis."""
        if self._next().startswith(".") and self._next() != ".":
            self._place += 1
            return self._words[self._place - 1].removeprefix(".")
        return ""

    def _fields(self, value: Any, path: str) -> Any:
        for name in filter(None, path.split(".")):
            if isinstance(value, Chart):
                value = {"Glob": _glob(value.files), "Get": value.files.__getitem__}[name]
            elif isinstance(value, Mapping):
                if name not in value:
                    raise TemplateError(f"{path}: there is no {name}")
                value = value[name]
            else:
                raise TemplateError(f"{path}: {value!r} has no {name}")
        return value


def _parts(text: str) -> Iterator[str | tuple[str, str]]:
    """Texts and actions, blanks cut off where an action says so; comments left out."""
    place, cut = 0, False
    for found in _ACTION.finditer(text):
        before = text[place : found.start()]
        before = before.lstrip() if cut else before
        yield before.rstrip() if found[1] else before
        if not found[2].startswith("/*"):
            yield "action", found[2].strip()
        place, cut = found.end(), bool(found[3])
    yield text[place:].lstrip() if cut else text[place:]


def _words(expression: str) -> list[str]:
    words = _WORD.findall(expression)
    if "".join(words) != re.sub(r'("(?:[^"\\]|\\.)*")|\s+', r"\1", expression):
        raise TemplateError(f"{expression}: holds what is not understood")
    return words


def _shown(value: Any) -> str:
    if value is None:
        raise TemplateError("a value is missing")
    return str(value).lower() if isinstance(value, bool) else str(value)


def _indented(width: int, text: str) -> str:
    return "\n" + "\n".join(" " * width + line for line in text.split("\n"))


def _glob(files: Mapping[str, str]) -> Callable[[str], dict[str, str]]:
    def glob(pattern: str) -> dict[str, str]:
        rule = re.compile(re.escape(pattern).replace(r"\*", "[^/]*"))
        return {name: text for name, text in files.items() if rule.fullmatch(name)}

    return glob


def _dict(*pairs: Any) -> dict[str, Any]:
    return dict(zip(pairs[::2], pairs[1::2], strict=True))


FUNCTIONS: Final[Mapping[str, Callable[..., Any]]] = {
    "base": lambda path: path.rpartition("/")[2],
    "contains": lambda part, text: part in text,
    "default": lambda other, value: value or other,
    "dict": _dict,
    "fromYaml": yaml.safe_load,
    "list": lambda *values: list(values),
    "lower": str.lower,
    "nindent": _indented,
    "not": lambda value: not value,
    "printf": lambda form, *values: form % values,
    "quote": lambda value: json.dumps(_shown(value)),
    "sha256sum": lambda text: hashlib.sha256(text.encode()).hexdigest(),
    "toYaml": lambda value: yaml.safe_dump(value, sort_keys=True, width=10_000).rstrip("\n"),
    "trimSuffix": lambda end, text: text.removesuffix(end),
    "trunc": lambda length, text: text[:length],
}
