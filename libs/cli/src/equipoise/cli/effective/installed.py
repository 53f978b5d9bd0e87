"""The configuration of the collectors, read from the API server, where clients of the bus cannot change it."""

from collections.abc import Mapping

import msgspec
from msgspec.structs import replace

from equipoise.cli.cluster_access.server_pods import SERVER_PODS
from equipoise.cli.effective.adopted import without_private
from equipoise.cli.effective.running import SHARED_FROM
from equipoise.cli.service_settings import AllSettings, all_settings
from equipoise.collector.settings import PrometheusSettings
from equipoise.runtime.configuration import ConfigurationError, read_document
from equipoise.runtime.configuration.env_overrides import PREFIX
from equipoise.runtime.kubernetes.client import CONFIG_MAPS, Kube, NotFound

SELECTOR = "app.kubernetes.io/component=collector"
KEY = "equipoise.yaml"
DEFAULT_URL = PrometheusSettings().url


async def installed_settings(kube: Kube, namespace: str) -> dict[str, AllSettings]:
    """The settings of the collectors by their source, without those that this version cannot read. Raises KubeError."""
    settings_by_source: dict[str, AllSettings] = {}
    for pod in await kube.list(SERVER_PODS, namespace, SELECTOR):
        # What a collector reads at its start: the ConfigMaps that it mounts, and the variables that override them.
        overriding = {each.name: each.value for each in pod.variables if each.name.startswith(PREFIX) and each.value}
        for name in (each.config_map.name for each in pod.spec.volumes if each.config_map is not None):
            try:
                stored = await kube.get(CONFIG_MAPS, name, namespace)
                settings_by_source[f"ConfigMap {namespace}/{name} of pod {pod.metadata.name}"] = all_settings(
                    read_document(stored.data[KEY]), overriding
                )
            except (NotFound, KeyError, ConfigurationError):
                continue
    return settings_by_source


class InstalledSource(msgspec.Struct, frozen=True, kw_only=True):
    """The settings for a reading of the cluster, as they are installed."""

    settings: AllSettings
    profile: str | None
    """The profile of the Prometheus; None if none is named."""

    where: str


def with_installed(own: AllSettings, installed: Mapping[str, AllSettings]) -> InstalledSource | None:
    """The settings of the command, with what is installed of load, thresholds, protection and the source of metrics.

    The first ConfigMap is the configuration, and the first that names a Prometheus is used for that. Connections, files
    and credentials remain those of the command. None: nothing is installed.
    """
    if not installed:
        return None
    first = next(iter(installed.values()))
    named = [(where, each) for where, each in installed.items() if each.collector.prometheus.url != DEFAULT_URL]
    where, with_source = named[0] if named else next(iter(installed.items()))
    prometheus = without_private(with_source.collector.prometheus)
    shared = replace(own.shared, **{name: getattr(first.shared, name) for name in SHARED_FROM})
    collector = replace(without_private(first.collector), prometheus=prometheus)
    settings = replace(own, shared=shared, collector=collector, descheduler=without_private(first.descheduler))
    return InstalledSource(settings=settings, profile=prometheus.profile if named else None, where=where)
