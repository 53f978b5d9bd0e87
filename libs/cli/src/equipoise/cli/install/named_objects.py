"""Checks that the Secrets and ConfigMaps that the values name exist, unless something creates them.

Pods would wait for a missing one until Helm gives up, and Helm does not name it.
"""

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import msgspec

from equipoise.cli.bus.access import SECRETS
from equipoise.cli.doctor.environment import Finding
from equipoise.cli.install.given_values import GivenValues
from equipoise.contracts.kubernetes.objects.metadata import ApiValue
from equipoise.runtime.kubernetes.client import CONFIG_MAPS, Kube, Resource, find

PASSWORDS = "nats.existingSecret"

SECRET_VALUES: Mapping[str, str] = {
    PASSWORDS: "equipoise-nats",
    "nats.tls.existingSecret": "equipoise-nats-tls",
    "extender.tls.existingSecret": "equipoise-extender-tls",
    "extender.tls.clientSecret": "equipoise-extender-client",
    "hints.webhook.tls.existingSecret": "equipoise-hints-webhook-tls",
}
"""The values that name a Secret, with the names that the Job equipoise-prepare creates."""

VOLUMES = ".extraVolumes"
"""The end of the names of values with volumes of pods."""


class RequiredObject(NamedTuple):
    """An object that a pod waits for. `value`: the value of the chart that names it."""

    value: str
    resource: Resource[Any]
    name: str


class NamedObject(ApiValue, frozen=True, kw_only=True):
    """A Secret or a ConfigMap. Only a volume of a Secret has the name in `secret_name`."""

    name: str = ""
    secret_name: str = ""
    optional: bool = False

    @property
    def required_name(self) -> str:
        """Its name; empty if pods start without it."""
        return "" if self.optional else self.secret_name or self.name


class VolumeSource(ApiValue, frozen=True, kw_only=True):
    secret: NamedObject | None = None
    config_map: NamedObject | None = None


class ProjectedSources(ApiValue, frozen=True, kw_only=True):
    sources: tuple[VolumeSource, ...] = ()


class NamedVolume(VolumeSource, frozen=True, kw_only=True):
    projected: ProjectedSources = ProjectedSources()


async def missing_objects(kube: Kube, namespace: str, given: GivenValues) -> list[Finding]:
    """A warning for each object that does not exist in the namespace. Raises KubeError."""
    findings = []
    for value, resource, name in dict.fromkeys(required_objects(given)):
        if await find(kube, resource, name, namespace) is None:
            message = f"{resource.kind} {name}, which {value} names, does not exist: pods would wait for it"
            findings.append(Finding("warning", resource.kind.lower(), message, f"create it in namespace {namespace}"))
    return findings


def required_objects(given: GivenValues) -> Iterator[RequiredObject]:
    """The objects that the values name and that nothing creates."""
    with_cert_manager = _is_true(given.get("certManager.enabled", False))
    created = SECRET_VALUES.values() if _is_true(given.get("prepare.enabled", True)) else ()
    for value in SECRET_VALUES:
        name = None if _is_off(given, value) else given.get(value)
        if name and isinstance(name, str) and name not in created and (value == PASSWORDS or not with_cert_manager):
            yield RequiredObject(value, SECRETS, name)
    for value, volumes in given.items():
        if value.endswith(VOLUMES) and not _is_off(given, value):
            for source in _sources(volumes):
                for reference, resource in ((source.secret, SECRETS), (source.config_map, CONFIG_MAPS)):
                    if reference is not None and reference.required_name:
                        yield RequiredObject(value, resource, reference.required_name)


def _sources(volumes: Any) -> Iterator[VolumeSource]:
    """The sources of volumes. Invalid volumes are left out: Helm reports them."""
    try:
        for volume in msgspec.convert(volumes, list[NamedVolume]):
            yield volume
            yield from volume.projected.sources
    except msgspec.ValidationError:
        return


def _is_off(given: GivenValues, value: str) -> bool:
    """Whether the part of the chart to which a value belongs is not installed. Services use the passwords of any
    NATS."""
    part = value.partition(".")[0]
    return part != "nats" and not _is_true(given.get(f"{part}.enabled", True))


def _is_true(value: Any) -> bool:
    return value is True or value == "true"
