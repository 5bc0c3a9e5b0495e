"""The functions of Helm's templates that the chart uses, for the renderer of the tests."""

import hashlib
import json
import re
from collections.abc import Callable, Mapping
from typing import Any, Final

import yaml


class TemplateError(Exception):
    """The template cannot be rendered."""


def text_of(value: Any) -> str:
    """A value as a template prints it."""
    if value is None:
        raise TemplateError("a value is missing")
    return str(value).lower() if isinstance(value, bool) else str(value)


def _indented(width: int, text: str) -> str:
    return "\n" + "\n".join(" " * width + line for line in text.split("\n"))


def _dict(*pairs: Any) -> dict[str, Any]:
    return dict(zip(pairs[::2], pairs[1::2], strict=True))


def _and(*values: Any) -> Any:
    return next((value for value in values if not value), values[-1])


def _or(*values: Any) -> Any:
    return next((value for value in values if value), values[-1])


def _set(values: dict[str, Any], name: str, value: Any) -> dict[str, Any]:
    values[name] = value
    return values


def _merge_overwrite(target: dict[str, Any], *others: Mapping[str, Any]) -> dict[str, Any]:
    for other in others:
        target.update(other)
    return target


def _printf(form: str, *values: Any) -> str:
    return form.replace("%v", "%s") % values


def _replaced(rule: str, text: str, by: str) -> str:
    return re.sub(rule, re.sub(r"\$\{(\d)\}", r"\\g<\1>", by), text)


def _fail(message: str) -> str:
    raise TemplateError(message)


FUNCTIONS: Final[Mapping[str, Callable[..., Any]]] = {
    "and": _and,
    "base": lambda path: path.rpartition("/")[2],
    "contains": lambda part, text: part in text,
    "default": lambda other, value: value or other,
    "dict": _dict,
    "eq": lambda one, other: one == other,
    "fail": _fail,
    "fromYaml": yaml.safe_load,
    "get": lambda values, name: values.get(name, ""),
    "has": lambda value, values: value in values,
    "hasKey": lambda values, name: name in values,
    "join": lambda between, values: between.join(values),
    "keys": lambda values: list(values),
    "list": lambda *values: list(values),
    "lower": str.lower,
    "mergeOverwrite": _merge_overwrite,
    "nindent": _indented,
    "not": lambda value: not value,
    "omit": lambda values, *names: {k: v for k, v in values.items() if k not in names},
    "or": _or,
    "printf": _printf,
    "quote": lambda value: json.dumps(text_of(value)),
    "regexReplaceAll": _replaced,
    "set": _set,
    "sha256sum": lambda text: hashlib.sha256(text.encode()).hexdigest(),
    "sortAlpha": sorted,
    "toYaml": lambda value: yaml.safe_dump(value, sort_keys=True, width=10_000).rstrip("\n"),
    "trimPrefix": lambda start, text: text.removeprefix(start),
    "trimSuffix": lambda end, text: text.removesuffix(end),
    "trunc": lambda length, text: text[:length],
}
