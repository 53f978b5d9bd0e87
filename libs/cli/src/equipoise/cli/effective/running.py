"""Which configurations the processes of a service run with. Pure."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec

from equipoise.cli.terminal import count, duration
from equipoise.contracts.bus.subjects import ServiceName
from equipoise.contracts.configuration.section_names import SECTIONS
from equipoise.contracts.messages.health import CONFIGURATION_LIFETIME, EffectiveConfiguration

Settings = Mapping[str, Any]
"""Sections, as in a configuration file."""

LOCAL_SECTIONS = frozenset({"nats", "logging"})
LOCAL_SETTINGS = frozenset({"health", "kubeconfig", "context", "service_account", "serviceAccount"})
"""Settings of one process that do not affect decisions: replicas on this machine and in the cluster differ in them."""

SHARED_FROM: Mapping[str, ServiceName] = {
    "load": "collector",
    "thresholds": "descheduler",
    "namespaces": "binder",
    "protection": "binder",
}
"""The service by which a shared section is known: it measures, proposes, or decides last."""

MAX_NAMED = 3
"""Processes that are named."""


class RunningConfiguration(msgspec.Struct, frozen=True, kw_only=True):
    """One configuration, and the processes of a service that run with it."""

    service: str
    processes: list[str]
    version: str
    published_at: float
    """The time at which the latest of them published it."""

    current: bool
    """False: they published nothing lately, so they are gone, or not connected."""

    settings: dict[str, Any]

    @property
    def named(self) -> str:
        """`binder-1`, `binder-1, binder-2`, `binder-1 and 7 more processes`."""
        if len(self.processes) <= MAX_NAMED:
            return ", ".join(self.processes)
        return (
            f"{self.processes[0]} and {count(len(self.processes) - 1, 'more process').replace('processs', 'processes')}"
        )

    def age_text(self, now: float) -> str:
        """How old it is, and what that means if it is not current."""
        age = duration(now - self.published_at)
        return f"published {age} ago" if self.current else f"published {age} ago and not since: it may no longer run"


def running_configurations(
    messages: Iterable[EffectiveConfiguration], service: str, now: float
) -> list[RunningConfiguration]:
    """The different configurations that processes of the service run with, the latest started first.

    Without a process that published lately: the last one, whose age is then to be shown. A process that has stopped in
    order runs with nothing.
    """
    of_service = [each for each in messages if each.service == service and not each.stopped]
    current = [each for each in of_service if now - each.at <= CONFIGURATION_LIFETIME]
    if not current:
        return [_running([max(of_service, key=lambda each: each.at)], current=False)] if of_service else []
    groups: dict[bytes, list[EffectiveConfiguration]] = {}
    for each in sorted(current, key=lambda each: (-each.started_at, each.id)):
        groups.setdefault(msgspec.json.encode(decisive(_own_sections(each)), order="deterministic"), []).append(each)
    return [_running(group, current=True) for group in groups.values()]


def _running(group: Sequence[EffectiveConfiguration], *, current: bool) -> RunningConfiguration:
    latest = group[0]
    return RunningConfiguration(
        service=latest.service,
        processes=sorted(each.id for each in group),
        version=latest.version,
        published_at=max(each.at for each in group),
        current=current,
        settings=_own_sections(latest),
    )


def _own_sections(message: EffectiveConfiguration) -> dict[str, Any]:
    """The shared sections and its own: what it states of other services was not published by them."""
    others = {*SECTIONS} - {message.service}
    return {name: section for name, section in message.settings.items() if name not in others}


def decisive(settings: Settings) -> dict[str, Any]:
    """The settings without those of one process."""
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
