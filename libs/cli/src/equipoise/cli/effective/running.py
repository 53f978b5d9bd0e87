"""Which configurations the processes of a service run with. Pure."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec

from equipoise.cli.terminal import duration
from equipoise.contracts.bus.subjects import ServiceName
from equipoise.contracts.configuration.section_names import SECTIONS
from equipoise.contracts.messages.health import CONFIGURATION_LIFETIME, EffectiveConfiguration

Settings = Mapping[str, Any]
"""Sections, as in a configuration file."""

LOCAL_SECTIONS = frozenset({"nats", "logging"})
LOCAL_SETTINGS = frozenset({"health", "kubeconfig", "context", "service_account", "serviceAccount"})
"""Settings that do not affect decisions. They differ between replicas on this machine and in the cluster."""

SHARED_FROM: Mapping[str, ServiceName] = {
    "load": "collector",
    "thresholds": "descheduler",
    "namespaces": "binder",
    "protection": "binder",
    "moves": "binder",
    "surge": "binder",
}
"""The service whose shared section is shown: the one that measures, that proposes, or that decides last."""

MAX_NAMED = 3
"""The maximum number of processes to name."""


class RunningConfiguration(msgspec.Struct, frozen=True, kw_only=True):
    """One configuration, and the processes of a service that run with it."""

    service: str
    processes: list[str]
    version: str
    published_at: float
    """The latest time at which one of the processes published it."""

    current: bool
    """Whether a process published it lately. If not, the processes have ended or are not connected."""

    settings: dict[str, Any]

    @property
    def named(self) -> str:
        """`binder-1`, `binder-1, binder-2`, `binder-1 and 7 more processes`."""
        if len(self.processes) <= MAX_NAMED:
            return ", ".join(self.processes)
        return f"{self.processes[0]} and {len(self.processes) - 1:,} more processes"

    def age_text(self, now: float) -> str:
        """The age of the configuration, with a warning if it is not current."""
        age = duration(now - self.published_at)
        return f"published {age} ago" if self.current else f"published {age} ago and not since: it may no longer run"


def running_configurations(
    messages: Iterable[EffectiveConfiguration], service: str, now: float
) -> list[RunningConfiguration]:
    """The distinct configurations that processes of the service run with. That of the latest process comes first.

    If no process published lately, the last published configuration is returned, and is not current. Processes that
    published that they stopped are ignored.
    """
    of_service = [message for message in messages if message.service == service and not message.stopped]
    current = [message for message in of_service if now - message.at <= CONFIGURATION_LIFETIME]
    if not current:
        return [_running([max(of_service, key=lambda message: message.at)], current=False)] if of_service else []
    groups: dict[bytes, list[EffectiveConfiguration]] = {}
    for message in sorted(current, key=lambda message: (-message.started_at, message.id)):
        settings = msgspec.json.encode(decisive(_own_sections(message)), order="deterministic")
        groups.setdefault(settings, []).append(message)
    return [_running(group, current=True) for group in groups.values()]


def _running(group: Sequence[EffectiveConfiguration], *, current: bool) -> RunningConfiguration:
    latest = group[0]
    return RunningConfiguration(
        service=latest.service,
        processes=sorted(message.id for message in group),
        version=latest.version,
        published_at=max(message.at for message in group),
        current=current,
        settings=_own_sections(latest),
    )


def _own_sections(message: EffectiveConfiguration) -> dict[str, Any]:
    """The shared sections and the section of the service itself. Other services may run with other sections."""
    others = {*SECTIONS} - {message.service}
    return {name: section for name, section in message.settings.items() if name not in others}


def decisive(settings: Settings) -> dict[str, Any]:
    """The settings that affect decisions: without LOCAL_SECTIONS and LOCAL_SETTINGS."""
    return {
        name: {key: value for key, value in section.items() if key not in LOCAL_SETTINGS}
        if isinstance(section, Mapping)
        else section
        for name, section in settings.items()
        if name not in LOCAL_SECTIONS
    }


def not_known(service: str) -> str:
    """Why nothing is shown as being in effect."""
    article = "an" if service[0] in "aeiou" else "a"
    return f"not known: no {service} has published its configuration (is {article} {service} running?)"
