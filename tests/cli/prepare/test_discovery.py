"""The source of metrics is found once: a Prometheus that an administrator has installed, else metrics-server."""

import asyncio
from collections.abc import Sequence

import msgspec
import pytest

from equipoise.cli.cluster_access.server_pods import SERVER_PODS, ServerPod, ServerSpec, ServerStatus
from equipoise.cli.cluster_now.reading import PrometheusUnusable
from equipoise.cli.exit_codes import CommandFailed
from equipoise.cli.prepare.discovery import RETRY_PERIOD, WAIT_SECONDS, Discovered, discover
from equipoise.cli.prepare.run import write_discovered
from equipoise.cli.prometheus.services import EXAMINED, SERVICES, Service, ServicePort, ServiceSpec
from equipoise.cli.service_settings import SERVICE_SETTINGS, AllSettings
from equipoise.collector.decisions.query import SourceError
from equipoise.collector.settings import CollectorSettings, PrometheusSettings
from equipoise.collector.sources.prometheus.http import Refused
from equipoise.contracts.configuration.settings import LoadSettings
from equipoise.contracts.kubernetes.objects.metadata import ExplainedCondition, ObjectMeta
from equipoise.contracts.kubernetes.objects.node import Node
from equipoise.runtime.configuration import validate_document
from equipoise.runtime.kubernetes.client import CONFIG_MAPS
from equipoise.runtime.process.clock import Clock
from equipoise.testbed.memory.clock import ManualClock
from equipoise.testbed.memory.kube import MemoryKube

OPERATED = "http://prometheus.monitoring.svc:9090"


class World:
    def __init__(self) -> None:
        self.clock = ManualClock()
        self.kube = MemoryKube(self.clock)
        self.trusted = {"system:serviceaccount:monitoring:prometheus"}
        self.kube.allows = lambda spec: spec.user in self.trusted and spec.resource_attributes.subresource == "metrics"
        self.problem = ""
        self.asked: list[str] = []
        self.settings = AllSettings()
        self.sent: list[PrometheusSettings] = []

    def put(
        self, namespace: str, name: str = "prometheus", *, ready: bool = True, accounts: Sequence[str] = ()
    ) -> None:
        spec = ServiceSpec(ports=[ServicePort(port=9090, target_port=9090)], selector={"app": name})
        self.kube.put(SERVICES, Service(metadata=ObjectMeta(name=name, namespace=namespace), spec=spec))
        for number, account in enumerate(accounts or ["prometheus"]):
            uid = f"{namespace}/{name}-{number}"
            metadata = ObjectMeta(name=f"{name}-{number}", namespace=namespace, labels={"app": name}, uid=uid)
            condition = ExplainedCondition(type="Ready", status=str(ready))
            pod = ServerPod(
                metadata=metadata,
                spec=ServerSpec(service_account_name=account),
                status=ServerStatus(conditions=(condition,)),
            )
            self.kube.put(SERVER_PODS, pod)

    async def profile_of(self, settings: CollectorSettings, load: LoadSettings, nodes: Sequence[Node], _: Clock) -> str:
        self.asked.append(settings.prometheus.url)
        self.sent.append(settings.prometheus)
        if self.problem.startswith("401"):
            raise PrometheusUnusable(settings.prometheus, Refused(self.problem))
        if self.problem.startswith("503"):
            raise PrometheusUnusable(settings.prometheus, SourceError(self.problem))
        if self.problem:
            raise CommandFailed(self.problem)
        return "kube-prometheus"

    async def discover(self, seconds: float = 0.0) -> Discovered:
        """The result, that must be there after this long. It can be read as a configuration."""
        task = asyncio.create_task(discover(self.kube, self.settings, self.clock, self.profile_of))
        await self.clock.advance(seconds)
        assert task.done()
        found = task.result()
        validate_document(found.document, SERVICE_SETTINGS)
        return found


async def test_the_prometheus_of_the_cluster_is_taken_with_its_profile() -> None:
    world = World()
    world.put("monitoring")
    found = await world.discover()
    assert found.collector == {
        "source": "prometheus", "prometheus": {"url": OPERATED, "profile": "kube-prometheus"}
    }  # fmt: skip
    assert OPERATED in found.reason


async def test_one_of_a_tenant_is_never_taken_and_never_asked() -> None:
    """Its account may not read the metrics of nodes; also beside the right one, and if only one of its pods may."""
    world = World()
    world.trusted.add("system:serviceaccount:tenant:trusted")
    world.put("tenant", accounts=["trusted", "default"])
    found = await world.discover()
    assert found.collector == {}
    assert "may not read nodes/metrics: http://prometheus.tenant.svc:9090" in found.reason
    world.put("monitoring")
    found = await world.discover()
    assert found.collector["prometheus"]["url"] == OPERATED
    assert "http://prometheus.tenant.svc:9090" in found.reason
    assert world.asked == [OPERATED]


async def test_of_several_none_is_taken_and_all_are_named() -> None:
    world = World()
    world.trusted.add("system:serviceaccount:other:prometheus")
    world.put("monitoring")
    world.put("other")
    found = await world.discover()
    assert found.collector == {}
    assert OPERATED in found.reason
    assert "http://prometheus.other.svc:9090" in found.reason
    assert "config.collector.prometheus.url" in found.reason
    assert world.asked == []


@pytest.mark.parametrize("namespaces", [1, 1000])
async def test_many_services_of_this_name_cost_bounded_work(namespaces: int) -> None:
    """A tenant may create them. They displace no Prometheus of another namespace, and the reason stays short."""
    world = World()
    for number in range(1000):
        world.put(f"tenant-{number % namespaces}", f"prometheus-{number}")
    world.put("monitoring", "prometheus-operated")
    found = await discover(world.kube, world.settings, world.clock, world.profile_of)
    assert len(world.kube.calls) < 3 * EXAMINED
    assert found.collector["prometheus"]["url"] == "http://prometheus-operated.monitoring.svc:9090"
    assert "901 more Services have the name of a Prometheus, and were not examined" in found.reason
    assert len(found.reason) < 1000


async def test_metrics_server_is_used_where_no_prometheus_can_be() -> None:
    """With the reason, and what to do for a Prometheus."""
    world = World()
    world.kube.served["metrics.k8s.io", "NodeMetrics"] = ["v1beta1"]
    found = await world.discover()
    assert found.collector == {"source": "metrics-server"}
    assert "metrics-server is used, because no Service of the cluster is that of a Prometheus" in found.reason


async def test_without_any_the_reason_is_stated() -> None:
    """Also if metrics-server is registered, and does not respond."""
    for error in (False, True):
        world = World()
        if error:
            world.kube.fail_next("discover", status=503, message="the server is currently unable to handle the request")
        found = await world.discover()
        assert found.collector == {}
        assert found.reason.startswith("nothing is measured: no Service of the cluster is that of a Prometheus")
        assert "no metrics-server" in found.reason


async def test_one_that_starts_is_waited_for() -> None:
    """Its pods are not Ready yet, or it has not scraped the nodes twice; not for ever."""
    world = World()
    world.put("monitoring", ready=False)
    task = asyncio.create_task(discover(world.kube, AllSettings(), world.clock, world.profile_of))
    await world.clock.advance(RETRY_PERIOD)
    assert not task.done()
    world.put("monitoring")
    world.problem = "no profile fits"
    await world.clock.advance(RETRY_PERIOD)
    assert not task.done()
    world.problem = ""
    await world.clock.advance(RETRY_PERIOD)
    assert (await task).collector["prometheus"]["url"] == OPERATED
    world.problem = "503"
    found = await world.discover(WAIT_SECONDS + RETRY_PERIOD)
    assert "503" in found.reason


async def test_one_that_requires_credentials_is_not_waited_for() -> None:
    """The result is stored: only a person can give credentials."""
    world = World()
    world.put("monitoring")
    world.problem = "401, credentials are required"
    found = await world.discover()
    assert world.problem in found.reason
    assert not found.temporary


@pytest.mark.parametrize(
    ("problem", "fix"), [("401, credentials are required", "collector.extraVolumes"), ("503", "prometheus.url")]
)
@pytest.mark.parametrize("metrics_server", [False, True])
async def test_a_reason_names_what_can_be_set_in_the_values(problem: str, fix: str, metrics_server: bool) -> None:
    """A Job has no options, and whoever reads its reason cannot give it one."""
    world = World()
    world.put("monitoring")
    if metrics_server:
        world.kube.served["metrics.k8s.io", "NodeMetrics"] = ["v1beta1"]
    world.problem = problem
    found = await world.discover(WAIT_SECONDS + RETRY_PERIOD if problem == "503" else 0.0)
    assert fix in found.reason
    assert " --" not in found.reason


async def test_credentials_are_not_sent_to_one_that_was_found() -> None:
    """They are for the server of the configuration."""
    world = World()
    world.put("monitoring")
    own = PrometheusSettings(bearer_token_file="/token", headers={"Authorization": "secret"})
    collector = msgspec.structs.replace(world.settings.collector, prometheus=own)
    world.settings = msgspec.structs.replace(world.settings, collector=collector)
    await world.discover()
    assert [(each.bearer_token_file, each.headers) for each in world.sent] == [(None, {})]


async def test_a_failure_that_may_pass_is_not_stored() -> None:
    """With metrics-server as the source it is stored, with how to search again."""
    for metrics_server in (False, True):
        world = World()
        world.put("monitoring", ready=False)
        if metrics_server:
            world.kube.served["metrics.k8s.io", "NodeMetrics"] = ["v1beta1"]
        writing = asyncio.create_task(write_discovered(world.kube, "equipoise-system", world.settings, world.clock))
        await world.clock.advance(WAIT_SECONDS + RETRY_PERIOD)
        await writing
        reasons = [each.data["reason"] for each in world.kube.stored(CONFIG_MAPS)]
        assert len(reasons) == metrics_server
        assert all("to search again, delete the ConfigMap equipoise-discovered" in reason for reason in reasons)
