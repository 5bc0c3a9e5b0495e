"""The schemas of answers, with a description and an example of each property. Pure, apart from
reading the docstrings of fields from the source of their types.
"""

import ast
import inspect
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any, Final

import msgspec

from .field_texts import COUNT, EXAMPLES, NUMBER, TEXTS

REFERENCE: Final = "#/components/schemas/{name}"
_PREFIX: Final = REFERENCE.format(name="")


def described(types: Sequence[type[msgspec.Struct]]) -> dict[str, dict[str, Any]]:
    """Name → schema of these types and of all that they refer to."""
    _, schemas = msgspec.json.schema_components(types, ref_template=REFERENCE)
    structs = _structs(types)
    for name, schema in schemas.items():
        docs = field_docs(structs[name])
        for field, value in schema.get("properties", {}).items():
            if text := docs.get(field) or text_of(name, field, value, schemas):
                value["description"] = text
    for name, schema in schemas.items():
        for field, value in schema.get("properties", {}).items():
            value["examples"] = [example_of(name, field, value, schemas)]
    return schemas


def text_of(
    name: str, field: str, value: Mapping[str, Any], schemas: Mapping[str, Any]
) -> str | None:
    """What a field without a docstring means; of one that is another type, what that is. None where
    nothing says it, which a test does not allow."""
    for key in (f"{name}.{field}", field):
        if key in TEXTS:
            return TEXTS[key]
    referred = _referred(value)
    return None if referred is None else str(schemas[referred]["description"])


def example_of(name: str, field: str, value: Mapping[str, Any], schemas: Mapping[str, Any]) -> Any:
    """An example of a property. Raises LookupError where there is none of a text."""
    for key in (f"{name}.{field}", field):
        if key in EXAMPLES and (key != field or _may_be(value, EXAMPLES[key])):
            return EXAMPLES[key]
    try:
        return _by_type(value, schemas)
    except KeyError as error:
        raise LookupError(f"{name}.{field}: has no entry in field_texts.EXAMPLES") from error


def _by_type(value: Mapping[str, Any], schemas: Mapping[str, Any]) -> Any:
    if "$ref" in value:
        name = value["$ref"].removeprefix(_PREFIX)
        properties = schemas[name]["properties"].items()
        return {field: example_of(name, field, part, schemas) for field, part in properties}
    if "anyOf" in value:
        return _by_type(value["anyOf"][0], schemas)
    if "enum" in value:
        return value["enum"][0] or value["enum"][-1]
    if value["type"] == "array":
        return [_by_type(value["items"], schemas)]
    return {"integer": COUNT, "number": NUMBER}[value["type"]]


def _may_be(value: Mapping[str, Any], example: Any) -> bool:
    """Whether the example is of one of the types of the property."""
    options = value.get("anyOf", [value])
    return any(
        (
            example in option["enum"]
            if "enum" in option
            else _KINDS.get(option.get("type")) is type(example)
        )
        for option in options
    )


_KINDS: Final[Mapping[Any, type]] = {
    "string": str,
    "integer": int,
    "number": float,
    "boolean": bool,
    "object": dict,
    "array": list,
    "null": type(None),
}


def _referred(value: Mapping[str, Any]) -> str | None:
    """The name of the type that a property is, or is a list of; None for a plain value."""
    if "anyOf" in value:
        return _referred(value["anyOf"][0])
    if "items" in value:
        return _referred(value["items"])
    return value["$ref"].removeprefix(_PREFIX) if "$ref" in value else None


@cache
def field_docs(struct: type[msgspec.Struct]) -> Mapping[str, str]:
    """Encoded name of each field with a docstring → that, in one line. Of a base class too."""
    found = dict[str, str]()
    for base in struct.__bases__:
        if issubclass(base, msgspec.Struct) and base is not msgspec.Struct:
            found |= field_docs(base)
    names = dict(zip(struct.__struct_fields__, struct.__struct_encode_fields__, strict=True))
    try:
        (tree,) = ast.parse(inspect.getsource(struct)).body
    except OSError:
        return found  # an installation without sources: it has the shared texts only
    assert isinstance(tree, ast.ClassDef)
    for field, text in zip(tree.body, tree.body[1:], strict=False):
        if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name):
            if isinstance(text, ast.Expr) and isinstance(text.value, ast.Constant):
                found[names[field.target.id]] = " ".join(str(text.value.value).split())
    return found


def _structs(types: Sequence[type[msgspec.Struct]]) -> dict[str, type[msgspec.Struct]]:
    """Name → type, of these and of all that they refer to."""
    found = dict[str, type[msgspec.Struct]]()

    def visit(part: object) -> None:
        if isinstance(part, msgspec.inspect.StructType):
            if part.cls.__name__ not in found:
                found[part.cls.__name__] = part.cls
                for field in part.fields:
                    visit(field.type)
        elif isinstance(part, msgspec.inspect.UnionType):
            for each in part.types:
                visit(each)
        elif isinstance(part, msgspec.inspect.VarTupleType | msgspec.inspect.ListType):
            visit(part.item_type)

    for each in types:
        visit(msgspec.inspect.type_info(each))
    return found
