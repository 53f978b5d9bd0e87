"""The configuration of the collectors of the cluster, as the API server has it: nobody on the bus can change it."""

from equipoise.cli.service_settings import AllSettings, all_settings
from equipoise.contracts.kubernetes.objects import ApiValue, Object
from equipoise.runtime.configuration import ConfigurationError, read_document
from equipoise.runtime.configuration.env_overrides import PREFIX
from equipoise.runtime.kubernetes.client import CONFIG_MAPS, Kube, NotFound, Resource

SELECTOR = "app.kubernetes.io/component=collector"
KEY = "equipoise.yaml"


class ConfigMapSource(ApiValue, frozen=True, kw_only=True):
    name: str = ""


class CollectorVolume(ApiValue, frozen=True, kw_only=True):
    config_map: ConfigMapSource | None = None


class CollectorVariable(ApiValue, frozen=True, kw_only=True):
    name: str = ""
    value: str = ""


class CollectorContainer(ApiValue, frozen=True, kw_only=True):
    env: tuple[CollectorVariable, ...] = ()


class CollectorSpec(ApiValue, frozen=True, kw_only=True):
    containers: tuple[CollectorContainer, ...] = ()
    volumes: tuple[CollectorVolume, ...] = ()


class CollectorPod(Object, frozen=True, kw_only=True):
    """What a collector reads at its start: the ConfigMaps that it mounts, and the variables that override them."""

    spec: CollectorSpec = CollectorSpec()

    @property
    def config_maps(self) -> list[str]:
        return [each.config_map.name for each in self.spec.volumes if each.config_map is not None]

    @property
    def variables(self) -> dict[str, str]:
        every = (variable for container in self.spec.containers for variable in container.env)
        return {each.name: each.value for each in every if each.name.startswith(PREFIX) and each.value}


COLLECTOR_PODS: Resource[CollectorPod] = Resource(group="", version="v1", plural="pods", kind="Pod", model=CollectorPod)


async def installed_settings(kube: Kube, namespace: str) -> dict[str, AllSettings]:
    """The settings of collectors, by where they are from, as far as this version can read them. Raises KubeError."""
    found: dict[str, AllSettings] = {}
    for pod in await kube.list(COLLECTOR_PODS, namespace, SELECTOR):
        for name in pod.config_maps:
            try:
                stored = await kube.get(CONFIG_MAPS, name, namespace)
                found[f"ConfigMap {namespace}/{name} of pod {pod.metadata.name}"] = all_settings(
                    read_document(stored.data[KEY]), pod.variables
                )
            except (NotFound, KeyError, ConfigurationError):
                continue
    return found
