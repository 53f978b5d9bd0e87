"""Commands that read the cluster use the configuration that is installed, without files and credentials."""

from equipoise.cli.cluster_access.server_pods import SERVER_PODS, ConfigMapVolume, ServerPod, ServerSpec, ServerVolume
from equipoise.cli.effective.installed import installed_settings, with_installed
from equipoise.cli.service_settings import AllSettings
from equipoise.contracts.kubernetes.objects.cluster import ConfigMap
from equipoise.contracts.kubernetes.objects.metadata import ObjectMeta
from equipoise.runtime.kubernetes.client import CONFIG_MAPS
from equipoise.testbed.memory.clock import ManualClock
from equipoise.testbed.memory.kube import MemoryKube

NAMESPACE = "equipoise-system"
HEADER = "apiVersion: equipoise.dev/v1alpha1\nkind: EquipoiseConfiguration\n"
FOUND = "http://prometheus.monitoring.svc:9090"
DISCOVERED = f"collector: {{source: prometheus, prometheus: {{url: '{FOUND}', profile: kube-prometheus}}}}"


def cluster(**texts: str) -> MemoryKube:
    """With a collector that mounts these ConfigMaps, in this order."""
    kube = MemoryKube(ManualClock())
    volumes = tuple(ServerVolume(name=name, config_map=ConfigMapVolume(name=name)) for name in texts)
    labels = {"app.kubernetes.io/component": "collector"}
    metadata = ObjectMeta(name="collector-1", namespace=NAMESPACE, labels=labels)
    kube.put(SERVER_PODS, ServerPod(metadata=metadata, spec=ServerSpec(volumes=volumes)))
    for name, text in texts.items():
        data = {"equipoise.yaml": HEADER + text}
        kube.put(CONFIG_MAPS, ConfigMap(metadata=ObjectMeta(name=name, namespace=NAMESPACE), data=data))
    return kube


async def test_the_prometheus_that_was_discovered_is_used_with_the_settings_of_the_configuration() -> None:
    kube = cluster(configuration="load: {base: capacity}", discovered=DISCOVERED)
    found = with_installed(AllSettings(), await installed_settings(kube, NAMESPACE))
    assert found is not None
    assert (found.settings.collector.prometheus.url, found.profile) == (FOUND, "kube-prometheus")
    assert found.settings.shared.load.base == "capacity"
    assert "discovered" in found.where


async def test_that_of_the_configuration_takes_precedence_without_its_credentials() -> None:
    """Files of the pod do not exist on this machine."""
    own = "collector: {prometheus: {url: 'http://own.a.svc:80', bearerTokenFile: /run/token}}"
    kube = cluster(configuration=own, discovered=DISCOVERED)
    found = with_installed(AllSettings(), await installed_settings(kube, NAMESPACE))
    assert found is not None
    assert (found.settings.collector.prometheus.url, found.profile) == ("http://own.a.svc:80", "kubelet")
    assert found.settings.collector.prometheus.bearer_token_file is None


async def test_without_a_source_there_is_no_profile() -> None:
    """The command then finds the Prometheus itself."""
    kube = cluster(configuration="load: {base: capacity}")
    found = with_installed(AllSettings(), await installed_settings(kube, NAMESPACE))
    assert found is not None
    assert found.profile is None
    assert with_installed(AllSettings(), {}) is None
