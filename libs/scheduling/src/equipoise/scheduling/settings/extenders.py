"""The settings of scheduler extenders. They are shared by all profiles."""

import re
from collections.abc import Sequence

import msgspec

from equipoise.scheduling.settings.document import Fields, show
from equipoise.scheduling.settings.plugin_arguments import is_label_key

DEFAULT_TIMEOUT = 5.0
"""Seconds."""


class ManagedResource(msgspec.Struct, frozen=True, kw_only=True):
    """An extended resource about which the extender decides."""

    name: str
    ignored_by_scheduler: bool = False


class TlsSettings(msgspec.Struct, frozen=True, kw_only=True):
    """The TLS settings of an extender. Data are Base64, and take precedence over files."""

    insecure: bool = False
    server_name: str = ""
    cert_file: str = ""
    key_file: str = ""
    ca_file: str = ""
    cert_data: str = ""
    key_data: str = ""
    ca_data: str = ""


class HttpExtender(msgspec.Struct, frozen=True, kw_only=True):
    """The settings of one extender. An empty verb is not called."""

    url_prefix: str
    filter_verb: str = ""
    prioritize_verb: str = ""
    preempt_verb: str = ""
    bind_verb: str = ""
    weight: int = 0
    """The weight of its scores."""

    enable_https: bool = False
    tls: TlsSettings | None = None
    http_timeout: float = DEFAULT_TIMEOUT
    """Seconds."""

    node_cache_capable: bool = False
    """Whether requests contain only the names of nodes."""

    managed_resources: tuple[ManagedResource, ...] = ()
    """The resources for which the extender is called: only pods that request one of them are sent. All pods if
    empty."""

    ignorable: bool = False
    """Whether an attempt continues if a request to the extender fails."""


def read_extenders(document: Fields) -> tuple[HttpExtender, ...]:
    """The extenders in the order in which they are called, ignorable ones last."""
    extenders = [_read(section) for section in document.sections("extenders")]
    if sum(bool(extender.bind_verb) for extender in extenders) > 1:
        document.fault("extenders", "only one extender may have a bindVerb")
    seen: set[str] = set()
    for index, extender in enumerate(extenders):
        for position, resource in enumerate(extender.managed_resources):
            if resource.name in seen:
                where = f"extenders[{index}].managedResources[{position}].name"
                document.fault(where, f"{show(resource.name)} is managed by two extenders")
            seen.add(resource.name)
    return tuple(sorted(extenders, key=lambda extender: extender.ignorable))


def ignored_resources(extenders: Sequence[HttpExtender]) -> tuple[str, ...]:
    """The resources that NodeResourcesFit does not check because an extender does."""
    return tuple(
        resource.name
        for extender in extenders
        for resource in extender.managed_resources
        if resource.ignored_by_scheduler
    )


def _read(section: Fields) -> HttpExtender:
    url = section.text("urlPrefix")
    if not url:
        section.wrong("urlPrefix", url, "the URL of the extender")
    prioritize = section.text("prioritizeVerb")
    # Without prioritizeVerb, the weight has no effect.
    weight = section.integer("weight", 0, lowest=1 if prioritize else 0)
    if prioritize and section.value("weight") is None:
        section.wrong("weight", None, "1 or more, as there is a prioritizeVerb")
    extender = HttpExtender(
        url_prefix=url,
        filter_verb=section.text("filterVerb"),
        prioritize_verb=prioritize,
        preempt_verb=section.text("preemptVerb"),
        bind_verb=section.text("bindVerb"),
        weight=weight,
        enable_https=section.flag("enableHTTPS"),
        tls=None if section.value("tlsConfig") is None else _tls(section.section("tlsConfig")),
        http_timeout=_timeout(section) or DEFAULT_TIMEOUT,
        node_cache_capable=section.flag("nodeCacheCapable"),
        managed_resources=tuple(_resource(resource) for resource in section.sections("managedResources")),
        ignorable=section.flag("ignorable"),
    )
    section.end()
    return extender


def _tls(section: Fields) -> TlsSettings:
    settings = TlsSettings(
        insecure=section.flag("insecure"),
        server_name=section.text("serverName"),
        cert_file=section.text("certFile"),
        key_file=section.text("keyFile"),
        ca_file=section.text("caFile"),
        cert_data=section.text("certData"),
        key_data=section.text("keyData"),
        ca_data=section.text("caData"),
    )
    section.end()
    return settings


def _resource(section: Fields) -> ManagedResource:
    name = section.text("name")
    native = "/" not in name or name.partition("/")[0].endswith("kubernetes.io") or name.startswith("requests.")
    if native or not is_label_key(name):
        section.wrong("name", name, "the name of an extended resource, such as example.com/device")
    resource = ManagedResource(name=name, ignored_by_scheduler=section.flag("ignoredByScheduler"))
    section.end()
    return resource


_UNITS = {"ns": 1e-9, "us": 1e-6, "µs": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0}
_PART = re.compile(r"(?<![0-9])([0-9]++\.?+[0-9]*+|\.[0-9]++)(ns|us|µs|ms|s|m|h)")


def _timeout(section: Fields) -> float:
    """The timeout of requests, written as a duration of Go, in seconds."""
    text = section.text("httpTimeout", "0s")
    if text == "0":
        return 0.0
    parts = _PART.findall(text)
    if not text or "".join(map("".join, parts)) != text:
        section.wrong("httpTimeout", text, "a duration such as 500ms, 5s or 1m30s")
        return 0.0
    return sum(float(number) * _UNITS[unit] for number, unit in parts)
