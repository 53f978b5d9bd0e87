"""The whole document at once: defaults with their explanations, JSON Schema, and a check of every section."""

import inspect
import textwrap
from collections.abc import Mapping
from typing import Any

import msgspec
import yaml

from equipoise.contracts.bus.subjects import ServiceName
from equipoise.contracts.configuration.settings import Section
from equipoise.runtime.configuration.errors import encode_value
from equipoise.runtime.configuration.loading import API_VERSION, KIND, all_sections, read_document, read_sections
from equipoise.runtime.configuration.schema import explanations, properties_of

_WIDTH = 110


def validate_document(text: str, sections: Mapping[ServiceName, type[Section]]) -> None:
    """Strict on every section. Raises ConfigurationError."""
    read_sections(read_document(text), sections)


def document_schema(sections: Mapping[ServiceName, type[Section]]) -> dict[str, Any]:
    """JSON Schema (2020-12) of a whole document."""
    properties, definitions = properties_of(all_sections(sections))
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": KIND,
        "type": "object",
        "properties": {"apiVersion": {"const": API_VERSION}, "kind": {"const": KIND}, **properties},
        "required": ["apiVersion", "kind"],
        "additionalProperties": False,
        "$defs": definitions,
    }


def defaults_document(sections: Mapping[ServiceName, type[Section]]) -> str:
    """Every setting with its default and explanation, as YAML that is itself a valid document."""
    shared, own = read_sections({}, sections)
    lines = [f"apiVersion: {API_VERSION}", f"kind: {KIND}"]
    for name, section in [*msgspec.structs.asdict(shared).items(), *own.items()]:
        lines.append("")
        lines += _comment(inspect.cleandoc(type(section).__doc__ or ""), 0)
        lines.append(f"{name}:")
        lines += _section_lines(section, 1)
    return "\n".join(lines) + "\n"


def _section_lines(section: Section, depth: int) -> list[str]:
    indent, texts = "  " * depth, explanations(type(section))
    lines: list[str] = []
    kind = section.__struct_config__
    if kind.tag is not None:
        lines.append(f"{indent}{kind.tag_field}: {kind.tag}")
    for field in msgspec.structs.fields(section):
        value = getattr(section, field.name)
        lines += _comment(texts.get(field.encode_name, ""), depth)
        if isinstance(value, Section) and value.__struct_fields__:
            lines.append(f"{indent}{field.encode_name}:")
            lines += _section_lines(value, depth + 1)
        else:
            plain = msgspec.to_builtins(value, enc_hook=encode_value)
            text = yaml.safe_dump({field.encode_name: plain}, sort_keys=False, allow_unicode=True, width=_WIDTH)
            lines += textwrap.indent(text.rstrip("\n"), indent).split("\n")
    return lines


def _comment(text: str, depth: int) -> list[str]:
    prefix = "  " * depth + "# "
    return [
        line
        for paragraph in text.split("\n\n")
        for line in textwrap.wrap(
            paragraph, _WIDTH, initial_indent=prefix, subsequent_indent=prefix, break_on_hyphens=False
        )
    ]
