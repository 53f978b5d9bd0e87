"""The whole document: defaults with their explanations, JSON Schema, and the validation of every section.

The schema generator of msgspec supports neither defaults of its unknown types (Duration) nor explanations.
"""

import inspect
import textwrap
from collections.abc import Collection, Mapping
from functools import cache
from typing import Any

import msgspec
import yaml
from msgspec import inspect as types

from equipoise.contracts.configuration.duration import EXAMPLES, PATTERN
from equipoise.contracts.configuration.field_docs import field_docstrings
from equipoise.contracts.configuration.section_names import SectionName
from equipoise.contracts.configuration.settings import Section
from equipoise.runtime.configuration.errors import ConfigurationError, encode_value
from equipoise.runtime.configuration.loading import API_VERSION, KIND, all_sections, read_header, read_sections

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

_WIDTH = 110


def validate_document(text: str, sections: Mapping[SectionName, type[Section]]) -> None:
    """Strict on every section. Raises ConfigurationError, with the faults of all parts."""
    plain, faults = read_header(text)
    try:
        read_sections(plain, sections)
    except ConfigurationError as error:
        faults.append(str(error))
    if faults:
        raise ConfigurationError("\n".join(faults))


def document_schema(sections: Mapping[SectionName, type[Section]]) -> dict[str, Any]:
    """JSON Schema (2020-12) of a whole document."""
    kinds, definitions = all_sections(sections), Schema()
    infos = types.multi_type_info(kinds.values())
    properties = {name: _schema(info, definitions) for name, info in zip(kinds, infos, strict=True)}
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": KIND,
        "type": "object",
        "properties": {"apiVersion": {"const": API_VERSION}, "kind": {"const": KIND}, **properties},
        "required": ["apiVersion", "kind"],
        "additionalProperties": False,
        "$defs": definitions,
    }


def defaults_document(sections: Mapping[SectionName, type[Section]], only: Collection[str] = ("",)) -> str:
    """Settings with their defaults and explanations, as YAML that is itself a valid document.

    `only`: paths of settings, or of sections with all of theirs (`binder.evict`); by default every setting.
    """
    shared, own = read_sections({}, sections)
    lines = [f"apiVersion: {API_VERSION}", f"kind: {KIND}"]
    for name, section in [*msgspec.structs.asdict(shared).items(), *own.items()]:
        if found := _section_lines(section, name, only):
            lines.append("")
            lines += _comment(inspect.cleandoc(type(section).__doc__ or ""), 0)
            lines += [f"{name}:", *found]
    return "\n".join(lines) + "\n"


def _section_lines(section: Section, path: str, only: Collection[str]) -> list[str]:
    depth = path.count(".") + 1
    indent, texts = "  " * depth, _explanations(type(section))
    lines: list[str] = []
    kind = section.__struct_config__
    if kind.tag is not None and _is_among(path, only):
        lines.append(f"{indent}{kind.tag_field}: {kind.tag}")
    for field in msgspec.structs.fields(section):
        value, below = getattr(section, field.name), f"{path}.{field.encode_name}"
        is_section = isinstance(value, Section) and bool(value.__struct_fields__)
        found = _section_lines(value, below, only) if is_section else []
        if not found and not _is_among(below, only):
            continue
        lines += _comment(texts.get(field.encode_name, ""), depth)
        if is_section:
            lines += [f"{indent}{field.encode_name}:", *found]
        else:
            plain = msgspec.to_builtins(value, enc_hook=encode_value)
            text = yaml.safe_dump({field.encode_name: plain}, sort_keys=False, allow_unicode=True, width=_WIDTH)
            lines += textwrap.indent(text.rstrip("\n"), indent).split("\n")
    return lines


def _is_among(path: str, only: Collection[str]) -> bool:
    """Whether the setting, or a section that contains it, is named."""
    return any(f"{path}.".startswith(f"{each}." if each else "") for each in only)


def _comment(text: str, depth: int) -> list[str]:
    prefix = "  " * depth + "# "
    return [
        line
        for paragraph in text.split("\n\n")
        for line in textwrap.wrap(
            paragraph, _WIDTH, initial_indent=prefix, subsequent_indent=prefix, break_on_hyphens=False
        )
    ]


@cache
def _explanations(kind: type[Section]) -> dict[str, str]:
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
            # With its module: sections of several services may have the same name.
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
    texts = _explanations(info.cls)
    properties: Schema = {}
    required = [field.encode_name for field in info.fields if field.required]
    if info.tag_field is not None:
        properties[info.tag_field] = {"const": info.tag}
        required.insert(0, info.tag_field)
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
        "required": required,
        "additionalProperties": not info.forbid_unknown_fields,
    }


def _bounds(info: types.Type, keys: Mapping[str, str]) -> Schema:
    return {key: getattr(info, bound) for bound, key in keys.items() if getattr(info, bound, None) is not None}
