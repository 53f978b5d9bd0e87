"""Reads the settings that a process of another version may have published. Pure."""

from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any, TypeVar, get_args, get_origin

from equipoise.binder.settings import BinderSettings
from equipoise.cli.effective.running import Settings
from equipoise.cli.service_settings import SERVICE_SETTINGS, read_installed
from equipoise.contracts.configuration.settings import Section
from equipoise.runtime.configuration import read_sections, to_document, without_header
from equipoise.runtime.configuration.errors import convert, field_types, sections_in

S = TypeVar("S", bound=Section)


def binder_settings(settings: Settings) -> BinderSettings:
    """The section `binder`. Raises ConfigurationError if this version cannot read its values."""
    return known_settings(settings.get("binder", {}), BinderSettings, "binder")


def file_settings(file: Path, environment: Mapping[str, str]) -> Settings:
    """All sections of a configuration file with the variables that override it. Raises ConfigurationError."""
    return to_sections(read_installed(file, environment), environment)


@cache
def default_settings() -> Settings:
    return to_sections({}, {})


def to_sections(document: Mapping[str, Any], environment: Mapping[str, str]) -> Settings:
    """All sections, with defaults and the variables that override the document. Raises ConfigurationError."""
    shared, own = read_sections(document, SERVICE_SETTINGS, environment)
    return without_header(to_document(shared, own))


def known_settings(value: Any, kind: type[S], where: str) -> S:
    """The section, without settings that this version does not know. Several versions can run at the same time."""
    section: S = convert(_known(value, kind), kind, where)
    return section


def _known(value: Any, kind: Any) -> Any:
    if isinstance(value, Mapping):
        sections = [section for section in sections_in(kind) if _has_tag(value, section)]
        if sections:
            types = {name: field for section in sections for name, field in field_types(section).items()}
            tags = {section.__struct_config__.tag_field for section in sections}
            return {
                name: _known(item, types[name]) if name in types else item
                for name, item in value.items()
                if name in types or name in tags
            }
        return {name: _known(item, _item_type(kind)) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [_known(item, _item_type(kind)) for item in value]
    return value


def _has_tag(value: Mapping[str, Any], section: type[Section]) -> bool:
    """Whether the value is this section, if its field may be one of several sections."""
    configuration = section.__struct_config__
    return configuration.tag is None or value.get(configuration.tag_field or "") == configuration.tag


def _item_type(kind: Any) -> Any:
    """The type of the items of a list or the values of a dict, also of one that may be null."""
    types = [argument for argument in get_args(kind) if argument is not Ellipsis]
    if get_origin(kind) in (list, tuple, dict, Mapping):
        return types[-1]
    return next((_item_type(each) for each in types if get_origin(each) in (list, tuple, dict, Mapping)), Any)
