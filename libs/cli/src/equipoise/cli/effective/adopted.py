"""The settings that a command uses in place of its own: those that services run with."""

from collections.abc import Callable, Collection
from pathlib import Path

from msgspec.structs import asdict, replace

from equipoise.cli.effective.running import running_configurations
from equipoise.cli.effective.settings import effective_settings
from equipoise.cli.service_settings import SERVICE_SETTINGS, AllSettings
from equipoise.collector.settings import PrometheusSettings
from equipoise.contracts.configuration.redaction import REDACTED
from equipoise.contracts.messages.health import EffectiveConfiguration

FILES = ("bearer_token_file", "ca_file", "cert_file", "key_file")


def adopted_settings(
    settings: AllSettings, messages: Collection[EffectiveConfiguration], now: float
) -> tuple[AllSettings, list[str]]:
    """The settings with the sections of running services, and the names of these; connections remain those of the
    command. Raises ConfigurationError if this version cannot read them.
    """
    sections: dict[str, object] = {}
    services: list[str] = []
    for service in SERVICE_SETTINGS:
        running = running_configurations(messages, service, now)
        if running and running[0].current:
            sections |= running[0].settings
            services.append(service)
    if not services:
        return settings, []
    found = effective_settings(sections)
    kept = {name: getattr(settings.shared, name) for name in ("nats", "kubernetes", "logging")}
    own = {name: getattr(found if name in services else settings, name) for name in SERVICE_SETTINGS}
    return AllSettings(shared=replace(found.shared, **kept), **own), services


def usable_here(
    settings: PrometheusSettings, exists: Callable[[str], bool] = lambda name: Path(name).exists()
) -> tuple[PrometheusSettings, list[str]]:
    """The settings without credentials that exist only where the collector runs, and the names of these."""
    headers = {name: value for name, value in settings.headers.items() if value != REDACTED}
    missing = [f"headers.{name}" for name in settings.headers if name not in headers]
    without: dict[str, object] = {"headers": headers}
    files = {name: value for name in FILES if (value := asdict(settings)[name]) is not None and not exists(value)}
    if files.keys() & {"cert_file", "key_file"}:
        files |= {name: getattr(settings, name) for name in ("cert_file", "key_file")}
    basic = settings.basic_authentication
    if basic is not None and not exists(basic.password_file):
        without["basic_authentication"] = None
        missing.append(f"basicAuthentication ({basic.password_file})")
    missing += [f"{name.replace('_', ' ')} {value}" for name, value in files.items()]
    return replace(settings, **without, **dict.fromkeys(files)), missing
