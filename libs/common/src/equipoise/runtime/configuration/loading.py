"""Reads settings from a document and the environment. A fault in one section of a service refuses all its settings."""

import hashlib
import os
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any, Generic, TypeVar

import msgspec

from equipoise.contracts.configuration.conflicts import configuration_conflicts
from equipoise.contracts.configuration.duration import Duration
from equipoise.contracts.configuration.section_names import SECTIONS, SectionName
from equipoise.contracts.configuration.settings import Section
from equipoise.runtime.configuration.discovered import DISCOVERED, beneath
from equipoise.runtime.configuration.env_overrides import overridden
from equipoise.runtime.configuration.errors import (
    ConfigurationError,
    convert,
    encode_value,
    field_types,
    show,
    unknown_name,
)
from equipoise.runtime.configuration.off_values import with_off
from equipoise.runtime.configuration.sections import Shared
from equipoise.runtime.configuration.yaml_text import LIMIT, UnreadableYaml, read_yaml

API_VERSION = "equipoise.dev/v1alpha1"
KIND = "EquipoiseConfiguration"

_HEADER = {"apiVersion": API_VERSION, "kind": KIND}

JUDGING = frozenset({"scorer", "descheduler", "binder"})
"""Services that use thresholds."""

S = TypeVar("S", bound=Section)


class Configuration(msgspec.Struct, Generic[S], frozen=True, kw_only=True):
    """The settings of one service."""

    shared: Shared
    own: S
    hash: str
    """The hash of everything this service reads, defaults included: replicas with the same hash do the same."""


def load_configuration(
    path: str | os.PathLike[str] | None, service: SectionName, section: type[S], environment: Mapping[str, str]
) -> Configuration[S]:
    """Reads the file (None: all defaults) and the environment. Checks the shared sections and that of the service.

    Other services' sections are ignored, so that versions may differ during a rollout.
    Raises ConfigurationError.
    """
    document = {} if path is None else read_document(_text_of(path))
    strict = all_sections({service: section})
    others = [name for name in SECTIONS if name not in strict]
    document = beneath(overridden(document, environment, strict, others), discovered_document(environment))
    shared, own = read_sections(document, {service: section})
    plain = msgspec.json.encode([shared, own[service]], enc_hook=encode_value, order="deterministic")
    return Configuration(shared=shared, own=own[service], hash=hashlib.sha256(plain).hexdigest()[:12])


def discovered_document(environment: Mapping[str, str]) -> dict[str, Any]:
    """The source of metrics that the installation found, from the file that the variable names; empty without one.

    Raises ConfigurationError.
    """
    file = environment.get(DISCOVERED)
    if not file or not Path(file).exists():
        return {}
    try:
        return read_document(_text_of(file))
    except ConfigurationError as error:
        raise ConfigurationError(f"{DISCOVERED} ({file}): {error}") from error


def read_document(text: str) -> dict[str, Any]:
    """The sections of a document as plain values. Raises ConfigurationError if it is no YAML or another kind of
    document."""
    sections, faults = read_header(text)
    if faults:
        raise ConfigurationError("\n".join(faults))
    return sections


def read_header(text: str) -> tuple[dict[str, Any], list[str]]:
    """The sections, and an error text for each of `apiVersion` and `kind` that is missing or has another value.

    Raises ConfigurationError if the text is no mapping.
    """
    try:
        document = read_yaml(text)
    except UnreadableYaml as error:
        raise ConfigurationError(str(error)) from error
    if not isinstance(document, dict):
        raise ConfigurationError(f"the document must be a mapping that begins with apiVersion: {API_VERSION}")
    faults = [
        f"{name}: {show(document[name])} is not allowed: expected {expected}"
        if name in document
        else f"{name}: is missing: add the line `{name}: {expected}`"
        for name, expected in _HEADER.items()
        if document.get(name) != expected
    ]
    return without_header(document), faults


def without_header(document: Mapping[str, Any]) -> dict[str, Any]:
    """The sections of the document, without `apiVersion` and `kind`."""
    return {name: value for name, value in document.items() if name not in _HEADER}


def read_sections(
    document: Mapping[str, Any],
    sections: Mapping[SectionName, type[S]],
    environment: Mapping[str, str] | None = None,
) -> tuple[Shared, dict[SectionName, S]]:
    """The shared sections and those of `sections`. Sections of other services are ignored.

    Raises ConfigurationError, a line for every section that is wrong.
    """
    strict = all_sections(sections)
    faults = _wrong_names(document, strict, SECTIONS)
    others = [name for name in SECTIONS if name not in sections]
    document = overridden(document, environment or {}, strict, others)
    values = {}
    for name, kind in strict.items():
        # `scorer:` with nothing below it is how people write an empty section.
        if document.get(name) is not None:
            try:
                values[name] = convert(with_off(document[name], [kind]), kind, name)
            except ConfigurationError as error:
                faults.append(str(error))
    if faults:
        raise ConfigurationError("\n".join(faults))
    shared = Shared(**{name: value for name, value in values.items() if name not in sections})
    # Commands and services that use no thresholds, above all `equipoise pause`, work although thresholds conflict.
    if not JUDGING.isdisjoint(sections) and (faults := configuration_conflicts(document, shared.thresholds)):
        raise ConfigurationError("\n".join(faults))
    return shared, {
        name: values[name] if name in values else convert({}, kind, name) for name, kind in sections.items()
    }


def to_document(shared: Shared, own: Mapping[SectionName, Section]) -> dict[str, Any]:
    """A whole document that reads back as the same values."""
    header: dict[str, Any] = {"apiVersion": API_VERSION, "kind": KIND}
    values = [*msgspec.structs.asdict(shared).items(), *own.items()]
    return header | {name: msgspec.to_builtins(value, enc_hook=encode_value) for name, value in values}


def all_sections(sections: Mapping[SectionName, type[S]]) -> dict[str, type[Any]]:
    """The types of the shared sections and of `sections` by name, in the order of the document."""
    named = field_types(Shared)
    named.update(sections.items())
    return named


def compress(section: S, factor: float) -> S:
    """A copy in which every Duration, at any depth, is divided by `factor`, so that a demo shows a day in minutes."""
    compressed: S = _compressed(section, factor)
    return compressed


def _compressed(value: Any, factor: float) -> Any:
    if isinstance(value, Duration):
        return type(value)(value / factor)
    if isinstance(value, msgspec.Struct):
        fields = {name: _compressed(getattr(value, name), factor) for name in value.__struct_fields__}
        return msgspec.structs.replace(value, **fields)
    if isinstance(value, tuple | list):
        return type(value)(_compressed(item, factor) for item in value)
    if isinstance(value, dict):
        return {key: _compressed(item, factor) for key, item in value.items()}
    return value


def _wrong_names(document: Mapping[str, Any], strict: Collection[str], others: Collection[str]) -> list[str]:
    return [
        f"{name}: {unknown_name(name, [*strict, *others])}"
        for name in document
        if name not in strict and name not in others
    ]


def _text_of(path: str | os.PathLike[str]) -> str:
    try:
        with Path(path).open("rb") as file:
            content = file.read(LIMIT + 1)
        return content.decode()
    except OSError as error:
        raise ConfigurationError(f"the file {path} cannot be read: {error.strerror or error}") from error
    except UnicodeDecodeError as error:
        raise ConfigurationError(f"the file {path} is not UTF-8: byte {error.start}") from error
