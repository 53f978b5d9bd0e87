"""The configuration of the collectors of the cluster, as the API server has it: nobody on the bus can change it."""

from equipoise.cli.server_pods import SERVER_PODS
from equipoise.cli.service_settings import AllSettings, all_settings
from equipoise.runtime.configuration import ConfigurationError, read_document
from equipoise.runtime.configuration.env_overrides import PREFIX
from equipoise.runtime.kubernetes.client import CONFIG_MAPS, Kube, NotFound

SELECTOR = "app.kubernetes.io/component=collector"
KEY = "equipoise.yaml"


async def installed_settings(kube: Kube, namespace: str) -> dict[str, AllSettings]:
    """The settings of collectors, by where they are from, as far as this version can read them. Raises KubeError."""
    found: dict[str, AllSettings] = {}
    for pod in await kube.list(SERVER_PODS, namespace, SELECTOR):
        # What a collector reads at its start: the ConfigMaps that it mounts, and the variables that override them.
        overriding = {each.name: each.value for each in pod.variables if each.name.startswith(PREFIX) and each.value}
        for name in (each.config_map.name for each in pod.spec.volumes if each.config_map is not None):
            try:
                stored = await kube.get(CONFIG_MAPS, name, namespace)
                found[f"ConfigMap {namespace}/{name} of pod {pod.metadata.name}"] = all_settings(
                    read_document(stored.data[KEY]), overriding
                )
            except (NotFound, KeyError, ConfigurationError):
                continue
    return found
