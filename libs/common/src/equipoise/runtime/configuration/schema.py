"""JSON Schema of a configuration, with the explanations and defaults of its settings.

msgspec's own generator cannot write a default that it does not know how to encode (Duration), nor explanations.
"""

import inspect
from collections.abc import Mapping
from functools import cache
from typing import Any

import msgspec
from msgspec import inspect as types

from equipoise.contracts.configuration.duration import EXAMPLES, PATTERN
from equipoise.contracts.configuration.field_docs import field_docstrings
from equipoise.contracts.configuration.settings import Section
from equipoise.runtime.configuration.errors import encode_value

Schema = dict[str, Any]

_NAMES: Mapping[type[types.Type], str] = {
    types.StrType: "string",
    types.FloatType: "number",
    types.IntType: "integer",
    types.BoolType: "boolean",
    types.NoneType: "null",
}
_BOUNDS = {
    "ge": "minimum",
    "gt": "exclusiveMinimum",
    "le": "maximum",
    "lt": "exclusiveMaximum",
    "multiple_of": "multipleOf",
    "min_length": "minLength",
    "max_length": "maxLength",
    "pattern": "pattern",
}
_ITEM_BOUNDS = {"min_length": "minItems", "max_length": "maxItems"}


def properties_of(sections: Mapping[str, type[Any]]) -> tuple[Schema, Schema]:
    """Schemas of these sections by name, and the definitions that they refer to."""
    definitions: Schema = {}
    infos = types.multi_type_info(sections.values())
    return {name: _schema(info, definitions) for name, info in zip(sections, infos, strict=True)}, definitions


@cache
def explanations(kind: type[Section]) -> dict[str, str]:
    """The docstrings under the fields of a section, by name on the wire."""
    texts: dict[str, str] = {}
    for parent in reversed(kind.__mro__):
        if issubclass(parent, Section) and parent is not Section:
            texts |= field_docstrings(parent)
    names = {field.name: field.encode_name for field in msgspec.structs.fields(kind)}
    return {names[name]: text for name, text in texts.items() if name in names}


def _schema(info: types.Type, definitions: Schema) -> Schema:
    match info:
        case types.Metadata(type=inner):
            return _schema(inner, definitions)
        case types.StructType(cls=kind):
            # With its module: services may call their sections alike.
            name = f"{kind.__module__.removeprefix('equipoise.')}.{kind.__name__}"
            if name not in definitions:
                definitions[name] = {}  # a section may hold itself
                definitions[name] = _struct(info, definitions)
            return {"$ref": f"#/$defs/{name}"}
        case types.UnionType(types=members):
            return {"anyOf": [_schema(member, definitions) for member in members]}
        case types.LiteralType(values=values):
            return {"enum": list(values)}
        case types.VarTupleType(item_type=item) | types.ListType(item_type=item):
            return {"type": "array", "items": _schema(item, definitions), **_bounds(info, _ITEM_BOUNDS)}
        case types.DictType(value_type=value):
            return {"type": "object", "additionalProperties": _schema(value, definitions)}
        case types.CustomType():
            return {"type": "string", "pattern": PATTERN, "examples": EXAMPLES.split(", ")}
        case types.AnyType():
            return {}
    return {"type": _NAMES[type(info)], **_bounds(info, _BOUNDS)}


def _struct(info: types.StructType, definitions: Schema) -> Schema:
    texts = explanations(info.cls)
    properties: Schema = {}
    if info.tag_field is not None:
        properties[info.tag_field] = {"const": info.tag}
    for field in info.fields:
        schema = _schema(field.type, definitions)
        if field.encode_name in texts:
            schema["description"] = texts[field.encode_name]
        if field.default is not msgspec.NODEFAULT:
            schema["default"] = msgspec.to_builtins(field.default, enc_hook=encode_value)
        properties[field.encode_name] = schema
    return {
        "type": "object",
        "description": inspect.cleandoc(info.cls.__doc__ or ""),
        "properties": properties,
        "required": [field.encode_name for field in info.fields if field.required],
        "additionalProperties": not info.forbid_unknown_fields,
    }


def _bounds(info: types.Type, words: Mapping[str, str]) -> Schema:
    return {word: getattr(info, bound) for bound, word in words.items() if getattr(info, bound, None) is not None}
