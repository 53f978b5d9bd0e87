"""The settings that a command uses in place of its own: those that services run with."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

import msgspec
from msgspec import structs

from equipoise.cli.effective.running import SHARED_FROM, running_configurations
from equipoise.cli.effective.settings import known_settings
from equipoise.cli.service_settings import SERVICE_SETTINGS, AllSettings
from equipoise.contracts.bus.subjects import ALL_SERVICES
from equipoise.contracts.configuration.redaction import is_location, is_private, redacted
from equipoise.contracts.configuration.settings import Section
from equipoise.contracts.messages.health import EffectiveConfiguration
from equipoise.runtime.configuration import ConfigurationError
from equipoise.runtime.configuration.errors import field_types

S = TypeVar("S", bound=Section)


class Adopted(msgspec.Struct, frozen=True, kw_only=True):
    """The settings of running services, with the connections, files, credentials and URLs of the command."""

    settings: AllSettings
    services: list[str]
    """The names of the services whose sections they are."""

    unreadable: list[str]
    """Why sections of a service were not taken: this version cannot read them."""

    refused_urls: dict[str, str]
    """URLs by setting that services publish, and that nobody has confirmed."""

    private: list[str]
    """Files and credentials that are set where the services run."""


@dataclass(frozen=True, kw_only=True)
class _NotTaken:
    """The settings that the command keeps as its own."""

    urls: dict[str, str] = field(default_factory=dict)
    private: list[str] = field(default_factory=list)


def adopted_settings(
    settings: AllSettings,
    messages: Collection[EffectiveConfiguration],
    now: float,
    confirmed: Sequence[AllSettings] = (),
) -> Adopted:
    """The settings with the sections of running services. Of a service only its own section is used, and the shared
    ones from the service that `SHARED_FROM` names.

    Whoever has the NATS password of a service can publish anything in its name. Files and credentials therefore remain
    those of the command, and so does a URL, unless it is one of `confirmed`: settings that are not from the bus.
    """
    values: dict[str, Any] = {}
    shared: dict[str, Any] = {}
    services: list[str] = []
    unreadable: list[str] = []
    for service in ALL_SERVICES:
        running = next(iter(running_configurations(messages, service, now)), None)
        if running is None or not running.current or service not in running.settings:
            continue
        given: Mapping[str, Any] = redacted(running.settings)
        kinds = {name: field_types(type(settings.shared))[name] for name, by in SHARED_FROM.items() if by == service}
        try:
            values[service] = known_settings(given[service], SERVICE_SETTINGS[service], service)
            shared |= {name: known_settings(given[name], kind, name) for name, kind in kinds.items() if name in given}
        except ConfigurationError as error:
            values.pop(service, None)
            unreadable.append(f"{running.named}: {error}")
        else:
            services.append(service)
    not_taken = _NotTaken()
    for name, value in values.items():
        others = [getattr(each, name) for each in confirmed]
        values[name] = _with_own(value, getattr(settings, name), others, name, not_taken)
    return Adopted(
        settings=structs.replace(settings, shared=structs.replace(settings.shared, **shared), **values),
        services=services,
        unreadable=unreadable,
        refused_urls=not_taken.urls,
        private=not_taken.private,
    )


def _with_own(found: S, own: S, confirmed: Sequence[S], path: str, not_taken: _NotTaken) -> S:
    """`found` with the files, credentials and URLs of `own`, except confirmed URLs.

    The credentials of `own` are for its own URL: they are left out if a confirmed URL replaces it.
    """
    changes: dict[str, Any] = {}
    urls = {each.name: getattr(found, each.name) for each in structs.fields(found) if is_location(each.encode_name)}
    if any(url != getattr(own, name) and url in _values(confirmed, name) for name, url in urls.items()):
        own = without_private(own)
    for each in structs.fields(found):
        at, theirs, mine = f"{path}.{each.encode_name}", getattr(found, each.name), getattr(own, each.name)
        if theirs == mine:
            continue
        if is_private(each.encode_name):
            changes[each.name] = mine
            if theirs:
                not_taken.private.append(at)
        elif is_location(each.encode_name):
            if theirs not in _values(confirmed, each.name):
                changes[each.name] = mine
                not_taken.urls[at] = theirs
        elif isinstance(theirs, Section) and type(theirs) is type(mine):
            changes[each.name] = _with_own(theirs, mine, _values(confirmed, each.name), at, not_taken)
    return structs.replace(found, **changes)


def _values(confirmed: Sequence[Section], name: str) -> list[Any]:
    return [getattr(each, name) for each in confirmed if hasattr(each, name)]


def without_private(section: S) -> S:
    """The section with the default of every file and credential."""
    default = type(section)()
    private = [each.name for each in structs.fields(section) if is_private(each.encode_name)]
    return structs.replace(section, **{name: getattr(default, name) for name in private})
