"""The settings that a process publishes, as values of this version. Pure."""

from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any, TypeVar, get_args, get_origin

from equipoise.binder.settings import BinderSettings
from equipoise.cli.effective.running import Settings
from equipoise.cli.service_settings import SERVICE_SETTINGS, read_file
from equipoise.contracts.configuration.settings import Section
from equipoise.runtime.configuration import read_sections, to_document, without_header
from equipoise.runtime.configuration.errors import convert, field_types, sections_in

S = TypeVar("S", bound=Section)


def binder_settings(settings: Settings) -> BinderSettings:
    """The section `binder`. Raises ConfigurationError if this version cannot read its values."""
    return known_settings(settings.get("binder", {}), BinderSettings, "binder")


def file_settings(file: Path, environment: Mapping[str, str]) -> Settings:
    """All sections of a configuration file with the variables that override it. Raises ConfigurationError."""
    return to_sections(read_file(file), environment)


@cache
def default_settings() -> Settings:
    return to_sections({}, {})


def to_sections(document: Mapping[str, Any], environment: Mapping[str, str]) -> Settings:
    """All sections, with defaults and the variables that override the document. Raises ConfigurationError."""
    shared, own = read_sections(document, SERVICE_SETTINGS, environment)
    return without_header(to_document(shared, own))


def known_settings(value: Any, kind: type[S], where: str) -> S:
    """The value without the settings that this version does not know: versions run side by side."""
    found: S = convert(_known(value, kind), kind, where)
    return found


def _known(value: Any, kind: Any) -> Any:
    if isinstance(value, Mapping):
        sections = [each for each in sections_in(kind) if _has_tag(value, each)]
        if sections:
            types = {name: each for section in sections for name, each in field_types(section).items()}
            tags = {section.__struct_config__.tag_field for section in sections}
            return {
                name: _known(each, types[name]) if name in types else each
                for name, each in value.items()
                if name in types or name in tags
            }
        return {name: _known(each, _item(kind)) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [_known(each, _item(kind)) for each in value]
    return value


def _has_tag(value: Mapping[str, Any], section: type[Section]) -> bool:
    """Whether it is this section, of several that a field may have."""
    configuration = section.__struct_config__
    return configuration.tag is None or value.get(configuration.tag_field or "") == configuration.tag


def _item(kind: Any) -> Any:
    """The type of the items of a list or the values of a dict."""
    found = [each for each in get_args(kind) if each is not Ellipsis and each is not type(None)]
    nested = next((each for each in found if get_origin(each) in (list, tuple, dict)), None)
    return nested if nested is not None else found[-1] if found else Any
