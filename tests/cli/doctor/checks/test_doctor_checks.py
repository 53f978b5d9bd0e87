"""`equipoise doctor` with a real nats-server, Prometheus and API server (also one in memory), and as a command."""

import asyncio
import json
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
import nats
import pytest
from bus_worlds import NatsWorld, free_port
from cli.beating import beating, every_service
from cli.buses import Bus
from cli.programs import run
from cluster_fixtures import StartCluster
from collector.exporter import Exporter, a_job, a_node, prometheus
from deployment.base import COLOCATION, NAMESPACE, colocation_documents
from deployment.kustomize import named, read_kustomization
from kube_objects import a_lease

from equipoise.binder.settings import BinderSettings
from equipoise.cli.bus.heartbeats import LISTEN_SECONDS
from equipoise.cli.certificates.issue import make_certificates
from equipoise.cli.certificates.purposes import NATS
from equipoise.cli.doctor.checks import CHECKS
from equipoise.cli.doctor.checks.measurements.prometheus import response_finding
from equipoise.cli.doctor.environment import UPGRADE, Environment, Finding
from equipoise.cli.doctor.run import diagnose
from equipoise.cli.service_settings import AllSettings
from equipoise.collector.settings import CollectorSettings, PrometheusSettings
from equipoise.contracts.bus.streams import STREAMS
from equipoise.contracts.bus.subjects import ALL_SERVICES, ServiceName, cluster_review, health
from equipoise.contracts.configuration.duration import Duration
from equipoise.contracts.configuration.settings import LoadSettings, Namespaces, Placement, Window
from equipoise.contracts.configuration.surge import SurgeSettings
from equipoise.contracts.eviction.approval import APPROVAL_POLICY, APPROVAL_ROLE, NOT_APPROVED, approval_rules
from equipoise.contracts.kubernetes.objects.access import (
    AccessReviewSpec,
    AdmissionPolicy,
    AdmissionPolicySpec,
    PolicyValidation,
    Role,
)
from equipoise.contracts.kubernetes.objects.cluster import ConfigMap, Namespace
from equipoise.contracts.kubernetes.objects.metadata import Condition, Object, ObjectMeta
from equipoise.contracts.kubernetes.objects.node import Node, NodeStatus
from equipoise.contracts.kubernetes.objects.pod import Pod, PodSpec, PodStatus
from equipoise.contracts.messages.advice import ClusterReview, ScoresFollowed
from equipoise.contracts.messages.health import HEARTBEAT
from equipoise.descheduler.settings import DeschedulerSettings
from equipoise.runtime.bus import connect
from equipoise.runtime.bus.nats.nats_bus import open_bus
from equipoise.runtime.configuration import Kubernetes, Nats, Shared, Tls
from equipoise.runtime.kubernetes.client import (
    ADMISSION_POLICIES,
    CONFIG_MAPS,
    LEASES,
    NAMESPACES,
    NODES,
    PODS,
    ROLE_BINDINGS,
    ROLES,
    SERVICE_ACCOUNTS,
    Kube,
    KubeError,
)
from equipoise.runtime.kubernetes.connection import connect_kube
from equipoise.runtime.process.clock import SystemClock
from equipoise.testbed.binaries.build import Binaries
from equipoise.testbed.cluster import Cluster
from equipoise.testbed.memory.kube import MemoryKube
from equipoise.testbed.objects import node

pytestmark = pytest.mark.filterwarnings("ignore:datetime.datetime.utcnow:DeprecationWarning")

AGENTS = "equipoise-agent"
NOWHERE = KubeError(0, "NoCluster", "there is none")
LOAD = LoadSettings(
    windows=(
        Window(name="5m", length=Duration(2), refresh_period=Duration(1)),
        Window(name="1d", length=Duration(6_000), refresh_period=Duration(30)),
    )
)

ROOT = Path(__file__).parents[4]


def environment(
    kube: Kube | KubeError = NOWHERE, bus: Nats | None = None, url: str = "http://127.0.0.1:1"
) -> Environment:
    settings = AllSettings(
        shared=Shared(nats=bus or Nats(url=f"nats://127.0.0.1:{free_port()}"), load=LOAD),
        collector=CollectorSettings(prometheus=PrometheusSettings(url=url, timeout=30.0)),
        descheduler=DeschedulerSettings(intent_lifetime=Duration(60)),
    )
    return Environment(settings=settings, clock=SystemClock(), kube=kube)


async def findings_of(name: str, environment: Environment) -> list[Finding]:
    """The findings of one check."""
    return (await diagnose(environment, {name: CHECKS[name]})).findings


def states(findings: list[Finding]) -> dict[str, str]:
    return {finding.subject: finding.state for finding in findings}


# the bus


async def test_a_complete_bus_has_no_fault(bus: Bus) -> None:
    """It has every stream, and the user tap has exactly its permissions."""
    findings = await findings_of("bus", environment(bus=bus.settings("tap")))
    assert {finding.state for finding in findings} == {"ok"}, findings
    assert {f"stream {stream.name}" for stream in STREAMS} <= states(findings).keys()
    assert any(finding.message == "tap has exactly the permissions it needs" for finding in findings)


async def test_unencrypted_services_are_a_warning(bus: Bus) -> None:
    """Their configuration decides: the doctor itself may use a port-forward, which has no other readers."""
    through_forward = environment(bus=bus.settings("tap"))
    through_forward.services_nats = Nats(url="nats://nats:4222")
    [warning] = [finding for finding in await findings_of("bus", through_forward) if finding.state != "ok"]
    assert (warning.state, warning.subject) == ("warning", "nats://nats:4222")
    assert "unencrypted" in warning.message
    assert "equipoise certificates --for nats" in warning.fix


@pytest.mark.parametrize(("days", "state"), [(365, "ok"), (20, "warning")])
async def test_a_certificate_of_nats_that_expires_soon_is_a_warning(tmp_path: Path, days: int, state: str) -> None:
    """NATS and its clients do not report it: open connections remain, and the next ones fail."""
    clock = SystemClock()
    make_certificates(tmp_path, NATS, names=(), addresses=(), days=days, force=False, now=clock.now())
    world = NatsWorld(
        tmp_path / "nats", f'tls {{ cert_file: "{tmp_path / "server.crt"}", key_file: "{tmp_path / "server.key"}" }}'
    )
    await world.start()
    try:
        tls = Tls(ca_file=str(tmp_path / "ca.crt"))
        findings = await findings_of("bus", environment(bus=Nats(url=f"tls://localhost:{world.port}", tls=tls)))
    finally:
        await world.stop()
    [finding] = [finding for finding in findings if "certificate" in finding.message]
    assert finding.state == state
    assert f"({days - 1} days)" in finding.message
    assert ("kill -HUP" in finding.fix) == (state == "warning")


async def test_the_doctor_takes_the_address_of_the_services_from_their_configuration(bus: Bus, tmp_path: Path) -> None:
    """`--nats` names the port-forward."""
    (tmp_path / "equipoise.yaml").write_text(
        "apiVersion: equipoise.dev/v1alpha1\nkind: EquipoiseConfiguration\nnats: {url: 'nats://nats:4222'}\n"
    )
    async with beating(bus.settings, *every_service()):
        _, output = await bus.run(
            "doctor", "--config", str(tmp_path / "equipoise.yaml"), "--prometheus", "http://127.0.0.1:1"
        )
    assert "nats://nats:4222: messages and passwords are sent to nats://nats:4222 unencrypted" in output


async def test_streams_are_unknown_to_users_without_permission(bus: Bus) -> None:
    """The fix names the right user; no stream is reported as missing."""
    findings = await findings_of("bus", environment(bus=bus.settings("scorer")))
    assert {finding.state for finding in findings if finding.subject.startswith("stream")} == {"unknown"}
    assert all("--user tap" in finding.fix for finding in findings if finding.state == "unknown")


async def test_a_wrong_password_is_an_error(bus: Bus, tmp_path: Path) -> None:
    """With the server's error."""
    file = tmp_path / "password"
    file.write_text("guessed")
    [finding] = await findings_of("bus", environment(bus=Nats(url=bus.url, user="tap", password_file=str(file))))
    assert finding.state == "error"
    assert "authorization" in finding.message.lower()


async def test_missing_and_different_streams_are_reported(tmp_path: Path) -> None:
    """Each by its name; a server without users is a warning."""
    world = NatsWorld(tmp_path)
    await world.start()
    async with await nats.connect(world.settings.url) as client:
        await client.jetstream().add_stream(name="EQUIPOISE_PLACEMENT", subjects=["equipoise.placement.node.*"])
    findings = await findings_of("bus", environment(bus=world.settings))
    await world.stop()
    found = {finding.subject: finding for finding in findings}
    assert found["stream EQUIPOISE_INTENT"].message == "does not exist"
    assert "equipoise setup" in found["stream EQUIPOISE_INTENT"].fix
    assert "has equipoise.placement.node.*, not equipoise.placement.>" in found["stream EQUIPOISE_PLACEMENT"].message
    assert "max_msgs_per_subject is -1, not 1" in found["stream EQUIPOISE_PLACEMENT"].message
    assert any("has no permissions" in finding.message for finding in findings)


# versions


async def test_the_versions_are_read_from_the_api_server_and_from_heartbeats(tmp_path: Path) -> None:
    """Until every service has reported, so within 10 s; the reclaimer, too, where it is installed."""
    world = NatsWorld(tmp_path)
    await world.start()
    kube = MemoryKube(SystemClock())
    put_account(kube, "reclaimer")

    async def report(service: ServiceName) -> None:
        async with connect(world.settings, service) as bus:
            heartbeat = msgspec.structs.replace(HEARTBEAT, service=service, version="0.0.1")
            await asyncio.sleep(0.5 if service == "reclaimer" else 0)
            while True:
                await bus.publish(health(service, heartbeat.id), heartbeat)
                await asyncio.sleep(0.1)

    reporting = [asyncio.create_task(report(service)) for service in ALL_SERVICES]
    async with asyncio.timeout(LISTEN_SECONDS):
        findings = await findings_of("versions", environment(kube, world.settings))
    for task in reporting:
        task.cancel()
    await asyncio.wait(reporting)
    await world.stop()
    assert states(findings) == {"Kubernetes": "ok", **dict.fromkeys(ALL_SERVICES, "warning")}


# kube-scheduler


REVIEW = cluster_review(hour=0, since=0)
"""One subject: the review of a later test replaces that of an earlier one."""


async def test_the_use_of_scores_is_read_from_the_stream(bus: Bus) -> None:
    """As the user tap, without a connection to a scorer."""
    now = SystemClock().now()
    assert states(await findings_of("extender", environment(bus=bus.settings("tap")))) == {"kube-scheduler": "unknown"}
    scores = ScoresFollowed(requests=300, placed=250, followed=0.8, by_chance=0.1)
    review = ClusterReview(since=now - 600, until=now, seen=600.0, nodes=3.0, scores=scores)
    async with open_bus(bus.settings("scorer"), "scorer", SystemClock(), None) as open_:
        await open_.publish(REVIEW, review)
    [finding] = await findings_of("extender", environment(bus=bus.settings("tap")))
    assert finding.state == "ok"
    assert "80% of 250 pods" in finding.message


async def test_no_requests_are_a_warning_unless_the_configuration_enables_hints(bus: Bus) -> None:
    now = SystemClock().now()
    review = ClusterReview(since=now - 300, until=now, seen=300.0, nodes=3.0, scores=ScoresFollowed(requests=0))
    async with open_bus(bus.settings("scorer"), "scorer", SystemClock(), None) as open_:
        await open_.publish(REVIEW, review)
    without = environment(bus=bus.settings("tap"))

    def placed(**fields: bool) -> AllSettings:
        shared = msgspec.structs.replace(without.settings.shared, placement=Placement(**fields))
        return msgspec.structs.replace(without.settings, shared=shared)

    assert {"kube-scheduler": "warning"} == states(await findings_of("extender", without))
    for settings, state in ((placed(hints=True), "warning"), (placed(hints=True, extender=False), "ok")):
        assert {"kube-scheduler": state} == states(
            await findings_of("extender", Environment(settings=settings, clock=SystemClock(), kube=NOWHERE))
        )


# Prometheus and nodes


@pytest.fixture(scope="module")
def metrics(testbed_binaries: Binaries, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Exporter, str]]:
    exporter = Exporter()
    jobs = [a_job(name, exporter, name, node=name) for name in ("well", "nan", "twin", "idle-1", "idle-2")]
    jobs.append(a_job("twin-2", exporter, "twin", node="twin"))
    for name, page in (("well", a_node(2.0)), ("nan", a_node(2.0, "NaN")), ("twin", a_node(2.0))):
        exporter.show(name, page)
    for name in ("idle-1", "idle-2"):
        exporter.show(name, a_node(0.0, 0))
    with prometheus(testbed_binaries.prometheus, tmp_path_factory.mktemp("prometheus"), jobs) as url:
        yield exporter, url
    exporter.close()


def put_node(kube: MemoryKube, name: str, *, ready: bool = True, **labels: str) -> None:
    status = NodeStatus(
        capacity={"cpu": "16", "memory": "64Gi"},
        allocatable={"cpu": "16", "memory": "64Gi"},
        conditions=[Condition(type="Ready", status="True" if ready else "False")],
    )
    created = datetime(2026, 1, 1, tzinfo=UTC)
    metadata = ObjectMeta(name=name, labels=labels, creation_timestamp=created)
    kube.put(NODES, Node(metadata=metadata, status=status))


async def eventually_found(
    name: str, make: Callable[[], Environment], enough: Callable[[dict[str, Finding]], bool]
) -> dict[str, Finding]:
    """By subject, as soon as Prometheus has enough samples."""
    async with asyncio.timeout(60):
        while True:
            by_subject = {finding.subject: finding for finding in await findings_of(name, make())}
            if enough(by_subject):
                return by_subject
            await asyncio.sleep(0.1)


def test_a_source_that_responds_slowly_is_named() -> None:
    """Its values are known, later than others."""
    fast, slow = response_finding("http://prometheus", 0.3), response_finding("http://prometheus", 8.04)

    assert (fast.state, fast.message) == ("ok", "responds")
    assert (slow.state, slow.message) == ("warning", "responds slowly: 8.0 s for the simplest query")


async def test_nodes_that_use_nothing_are_known_unless_they_have_pods(metrics: tuple[Exporter, str]) -> None:
    """As for collectors: fake nodes use nothing, and nodes with pods use something."""
    kube = MemoryKube(SystemClock())
    for name in ("well", "idle-1", "idle-2"):
        put_node(kube, name)
    known = await eventually_found(
        "nodes", lambda: environment(kube, url=metrics[1]), lambda found: found["nodes"].state == "ok"
    )
    for name in ("idle-1", "idle-2"):
        status = PodStatus(phase="Running", start_time=datetime(2026, 1, 1, tzinfo=UTC))
        pod = Pod(
            metadata=ObjectMeta(name=name, namespace="shop", uid=name), spec=PodSpec(node_name=name), status=status
        )
        kube.put(PODS, pod)
    with_pods = {finding.subject: finding for finding in await findings_of("nodes", environment(kube, url=metrics[1]))}

    assert "the load of 3 of 3 nodes is known" in known["nodes"].message
    assert "2 of 2 nodes with pods read exactly 0" in with_pods["node idle-1"].message


async def test_each_node_without_data_has_its_reason(metrics: tuple[Exporter, str]) -> None:
    """NaN, duplicates, no series; a virtual node and one that is not Ready are not expected to have data."""
    _, url = metrics
    kube = MemoryKube(SystemClock())
    for name in ("well", "nan", "twin", "absent"):
        put_node(kube, name)
    put_node(kube, "cloud", type="virtual-kubelet")
    put_node(kube, "down", ready=False)
    found = await eventually_found(
        "nodes",
        lambda: environment(kube, url=url),
        lambda all_: "node well" not in all_ and "value is nan" in _messages(all_),
    )
    assert "memory: value is nan" in found["node nan"].message
    assert "2 series claim to be this node" in found["node twin"].message
    assert "no sample" in found["node absent"].message
    assert found["node absent"].fix
    assert [found[f"node {name}"].state for name in ("nan", "twin", "absent")] == ["warning"] * 3
    assert [found[f"node {name}"].state for name in ("cloud", "down")] == ["ok"] * 2
    assert "virtual" in found["node cloud"].message
    assert "1 of 4 nodes is known, and of 1 in part (50% together)" in found["nodes"].message
    assert found["nodes"].state == "error"
    assert "known for 0 of 6 nodes" in found["window 1d"].message


def _messages(findings: dict[str, Finding]) -> str:
    return " ".join(finding.message for finding in findings.values())


async def test_the_profile_is_compared_with_the_series_of_prometheus(metrics: tuple[Exporter, str]) -> None:
    """Nodes of this cluster, or the labels of a series of another node."""
    _, url = metrics
    kube = MemoryKube(SystemClock())
    put_node(kube, "well")
    found = await eventually_found(
        "prometheus", lambda: environment(kube, url=url), lambda all_: "1 nodes" in _messages(all_)
    )
    assert found[url].state == "warning"
    assert "usage of 0 pods" in found[url].message
    other = MemoryKube(SystemClock())
    put_node(other, "somewhere-else")
    findings = await findings_of("prometheus", environment(other, url=url))
    assert "no series has a node of this cluster" in findings[1].message
    assert "nodeLabels" in findings[1].fix


async def test_clocks_are_compared(metrics: tuple[Exporter, str]) -> None:
    """Of three machines, here one; an API server that is 60 s ahead is an error."""
    _, url = metrics
    kube = MemoryKube(SystemClock())
    assert {"ok"} == set(states(await findings_of("clocks", environment(kube, url=url))).values())
    kube.skew = 60.0
    found = states(await findings_of("clocks", environment(kube, url=url)))
    assert found["API server and this machine"] == "error"
    assert found["Prometheus and API server"] == "error"
    assert found["Prometheus and this machine"] == "ok"


# the API server: one suite, in memory and real


class Deployed:
    """An API server with the ServiceAccounts and permissions of k8s/base and k8s/colocation, with its evictions."""

    def __init__(self, kube: Kube, revoke: Callable[[str, str, str], Awaitable[None]]) -> None:
        self.kube = kube
        self.revoke = revoke
        """Revoke a verb on a resource from a service."""


def a_policy(message: str) -> AdmissionPolicy:
    spec = AdmissionPolicySpec(validations=[PolicyValidation(message=message)])
    return AdmissionPolicy(metadata=ObjectMeta(name=APPROVAL_POLICY), spec=spec)


def put_account(kube: MemoryKube, service: str, place: str = NAMESPACE) -> None:
    metadata = ObjectMeta(name=f"equipoise-{service}", namespace=place)
    kube.put(SERVICE_ACCOUNTS, Object(metadata=metadata))


async def in_memory() -> Deployed:
    kube = MemoryKube(SystemClock())
    for service, place in (("collector", NAMESPACE), ("reclaimer", NAMESPACE), ("agent", AGENTS)):
        put_account(kube, service, place)
    text = "apiVersion: equipoise.dev/v1alpha1\nkind: EquipoiseConfiguration\nagent: {evict: true}\n"
    metadata = ObjectMeta(name="equipoise-agent", namespace=AGENTS)
    kube.put(CONFIG_MAPS, ConfigMap(metadata=metadata, data={"equipoise.yaml": text}))
    kube.put(NAMESPACES, Namespace(metadata=ObjectMeta(name="shop")))
    approvals = ObjectMeta(name=APPROVAL_ROLE, namespace=NAMESPACE)
    kube.put(ROLES, Role(metadata=approvals, rules=approval_rules(["uid-1", "uid-2"])))
    kube.put(ROLE_BINDINGS, Object(metadata=approvals))
    kube.put(ADMISSION_POLICIES, a_policy(NOT_APPROVED))
    revoked: set[tuple[str, str, str]] = set()

    def allows(spec: AccessReviewSpec) -> bool:
        attributes = spec.resource_attributes
        assert "system:authenticated" in spec.groups
        return (
            spec.user.rpartition("-")[2],
            attributes.verb,
            attributes.subresource or attributes.resource,
        ) not in revoked

    async def revoke(service: str, verb: str, resource: str) -> None:
        revoked.add((service, verb, resource))

    kube.allows = allows
    return Deployed(kube, revoke)


@pytest.fixture(scope="module")
def cluster(start_cluster: StartCluster) -> Cluster:
    return start_cluster()


async def on_cluster(cluster: Cluster, kube: Kube) -> Deployed:
    kinds = ("Namespace", "ServiceAccount", "Role", "ClusterRole", "RoleBinding", "ClusterRoleBinding")
    policies = "ValidatingAdmissionPolicy"
    evictions = read_kustomization(COLOCATION / "evictions")
    documents = [each for each in (*colocation_documents(), *evictions) if each["kind"] in (*kinds, policies)]
    configuration = named(colocation_documents(), "ConfigMap", "equipoise-agent")
    text = configuration["data"]["equipoise.yaml"].replace("evict: false", "evict: true")
    await cluster.apply([*documents, configuration | {"data": {"equipoise.yaml": text}}])

    async def revoke(service: str, verb: str, resource: str) -> None:
        for place, document in enumerate(documents):
            names = (f"equipoise-{service}", "equipoise-evict" if service == "binder" else f"equipoise-{service}-evict")
            if document["kind"] != "ClusterRole" or document["metadata"]["name"] not in names:
                continue
            rules = []
            for rule in document["rules"]:
                touched = verb in rule["verbs"] and any(resource in each for each in rule["resources"])
                left = [each for each in rule["verbs"] if each != verb or not touched]
                rules += [{**rule, "verbs": left}] if left else []
            documents[place] = {**document, "rules": rules}
            await cluster.apply([documents[place]])

    return Deployed(kube, revoke)


@pytest.fixture(params=["memory", pytest.param("real", marks=pytest.mark.cluster)])
async def deployed(request: pytest.FixtureRequest) -> AsyncIterator[Deployed]:
    if request.param == "memory":
        yield await in_memory()
        return
    cluster: Cluster = request.getfixturevalue("cluster")
    async with connect_kube(Kubernetes(kubeconfig=str(cluster.kubeconfig)), "doctor", SystemClock()) as kube:
        yield await on_cluster(cluster, kube)


async def until_found(deployed: Deployed, enough: Callable[[list[Finding]], bool]) -> list[Finding]:
    """The authorizer of a real API server reads changed roles with a delay."""
    async with asyncio.timeout(60):
        while not enough(findings := await findings_of("permissions", environment(deployed.kube))):  # noqa: ASYNC110
            await asyncio.sleep(0.2)
        return findings


def all_ok(findings: list[Finding]) -> bool:
    return {finding.state for finding in findings} == {"ok"}


async def test_a_revoked_permission_is_reported(deployed: Deployed) -> None:
    """With the manifest that grants it; with all permissions of k8s/base there is no fault."""
    await until_found(deployed, all_ok)
    await deployed.revoke("collector", "watch", "nodes")
    await deployed.revoke("binder", "create", "eviction")

    def revoked(findings: list[Finding]) -> bool:
        lacking = any(finding.state == "error" for finding in findings)
        return lacking and any("observe" in finding.message for finding in findings)

    findings = await until_found(deployed, revoked)
    lacking = next(
        finding for finding in findings if finding.subject == "collector (ServiceAccount equipoise-collector)"
    )
    assert "watch nodes" in lacking.message
    assert lacking.fix.startswith("apply k8s/base/collector.yaml (with Helm")
    evictions = next(finding for finding in findings if finding.subject.startswith("evictions"))
    assert "observe" in evictions.message
    evicting = environment(deployed.kube)
    binder = msgspec.structs.replace(evicting.settings.binder, evict=True)
    evicting.settings = msgspec.structs.replace(evicting.settings, binder=binder)
    findings = await findings_of("permissions", evicting)
    assert next(finding for finding in findings if finding.subject.startswith("evictions")).state == "error"


async def test_a_permission_that_co_location_lacks_is_reported(deployed: Deployed) -> None:
    """Of the reclaimer and of the agents, whose namespace is another one; and that to evict, if agent.evict is true."""
    complete = await until_found(deployed, all_ok)
    assert "may evict batch pods" in {finding.message for finding in complete}
    for service, verb, resource in (
        ("reclaimer", "patch", "status"),
        ("agent", "watch", "pods"),
        ("agent", "create", "eviction"),
    ):
        await deployed.revoke(service, verb, resource)

    findings = await until_found(deployed, lambda findings: sum(finding.state == "error" for finding in findings) >= 3)
    assert {finding.subject: (finding.message, finding.fix) for finding in findings if finding.state == "error"} == {
        "reclaimer (ServiceAccount equipoise-reclaimer)": (
            "may not patch nodes/status",
            f"apply k8s/colocation/reclaimer.yaml {UPGRADE}",
        ),
        "agent (ServiceAccount equipoise-agent)": (
            "may not watch pods",
            f"apply k8s/colocation/agent.yaml {UPGRADE}",
        ),
        "evictions by agents (ServiceAccount equipoise-agent)": (
            "may not evict, and agent.evict is true",
            "apply k8s/colocation/evictions (with Helm: set agent.evictions)",
        ),
    }


async def test_permissions_of_co_location_are_checked_where_it_is_installed() -> None:
    """Each of its parts; unknown to users who may not read ServiceAccounts."""
    kube = MemoryKube(SystemClock())
    put_account(kube, "collector")
    kube.allows = lambda _: True

    async def accounts() -> set[str]:
        found = states(await findings_of("permissions", environment(kube)))
        return {subject.partition(" ")[0] for subject in found} & {"reclaimer", "agent", "co-location"}

    assert await accounts() == set()
    put_account(kube, "reclaimer")
    assert await accounts() == {"reclaimer"}
    put_account(kube, "agent", AGENTS)
    assert await accounts() == {"reclaimer", "agent"}
    kube.refuse("list", resource="serviceaccounts")
    assert await accounts() == {"co-location"}


async def test_the_api_server_and_its_clock_have_no_fault(deployed: Deployed) -> None:
    """It lists its nodes and has the time of this machine."""
    assert [finding.state for finding in await findings_of("kubernetes", environment(deployed.kube))] == ["ok"]
    assert states(await findings_of("clocks", environment(deployed.kube)))["API server and this machine"] == "ok"


async def test_approvals_have_no_fault(deployed: Deployed) -> None:
    """The objects of k8s/base are there."""
    findings = await findings_of("approvals", environment(deployed.kube))
    assert states(findings) == dict.fromkeys((f"Role {APPROVAL_ROLE}", f"policy {APPROVAL_POLICY}"), "ok")


async def test_what_is_missing_for_approvals_is_reported() -> None:
    """With the manifest that has it."""
    deployed = await in_memory()
    assert isinstance(deployed.kube, MemoryKube)
    assert "now: 2" in (await findings_of("approvals", environment(deployed.kube)))[0].message
    deployed.kube.remove(ROLE_BINDINGS, APPROVAL_ROLE, NAMESPACE)
    deployed.kube.put(ADMISSION_POLICIES, a_policy("the namespace has opted out of evictions"))
    findings = await findings_of("approvals", environment(deployed.kube))
    assert [(finding.state, finding.fix) for finding in findings] == [
        ("error", f"apply k8s/base/descheduler.yaml {UPGRADE}"),
        ("error", f"apply k8s/base/fence.yaml {UPGRADE}"),
    ]
    deployed.kube.refuse("get", resource="roles")
    assert [finding.state for finding in await findings_of("approvals", environment(deployed.kube))] == ["unknown"]


async def test_with_a_kubeconfig_nothing_has_to_be_approved() -> None:
    [finding] = await findings_of("approvals", environment(MemoryKube(SystemClock())))
    assert finding.state == "ok"


async def test_permissions_are_unknown_to_users_who_may_not_review_them() -> None:
    """That is not an error of the services."""
    deployed = await in_memory()
    assert isinstance(deployed.kube, MemoryKube)
    deployed.kube.refuse("create", resource="subjectaccessreviews")
    [finding] = await findings_of("permissions", environment(deployed.kube))
    assert finding.state == "unknown"
    assert "administrator" in finding.fix


@pytest.mark.parametrize(("granted", "state"), [({"shop", "db"}, "ok"), ({"shop"}, "error"), (set(), "error")])
async def test_pods_may_be_detached_in_the_namespaces_of_the_configuration_only(granted: set[str], state: str) -> None:
    """As with the value `namespaces` of the chart."""
    kube = MemoryKube(SystemClock())

    def allows(spec: AccessReviewSpec) -> bool:
        attributes = spec.resource_attributes
        return (attributes.verb, attributes.resource) != ("patch", "pods") or attributes.namespace in granted

    kube.allows = allows
    found = environment(kube)
    shared = Shared(surge=SurgeSettings(mode="always"), namespaces=Namespaces(include=("shop", "db")))
    found.settings = msgspec.structs.replace(found.settings, shared=shared, binder=BinderSettings(evict=True))
    findings = await findings_of("permissions", found)
    assert states(findings)["binder (you)"] == state


async def test_without_service_accounts_the_current_user_is_checked() -> None:
    """`equipoise up` runs as the current user."""
    kube = MemoryKube(SystemClock())
    users: set[str] = set()

    def allows(spec: AccessReviewSpec) -> bool:
        users.add(spec.user)
        return spec.resource_attributes.resource != "jobs"

    kube.allows = allows
    findings = await findings_of("permissions", environment(kube))
    assert users == {""}
    assert states(findings)["collector (you)"] == "error"
    assert states(findings)["descheduler (you)"] == "ok"


# the command


async def test_without_any_server_every_check_has_a_finding(tmp_path: Path) -> None:
    """Exit code 1, no traceback, no colors on a pipe."""
    unreachable = ("--prometheus", "http://127.0.0.1:1", "--nats", "nats://127.0.0.1:1")
    (code, output), (code_of_json, encoded) = await asyncio.gather(
        run("doctor", *unreachable, KUBECONFIG=str(tmp_path / "none")),
        run("doctor", *unreachable, "-o", "json", KUBECONFIG=str(tmp_path / "none")),
    )
    assert code == 1
    assert "Traceback" not in output
    assert "\x1b" not in output
    assert "no kubeconfig" in output
    diagnosis: dict[str, Any] = json.loads(encoded)
    assert code_of_json == 1
    assert not diagnosis["healthy"]
    assert {finding["check"] for finding in diagnosis["findings"]} == set(CHECKS)
    assert {finding["state"] for finding in diagnosis["findings"]} == {"error", "unknown"}


async def test_only_the_named_checks_run(tmp_path: Path) -> None:
    """As messages and runbooks name them; an unknown name is invalid input, with the names that exist."""
    unreachable = ("--prometheus", "http://127.0.0.1:1", "--nats", "nats://127.0.0.1:1")
    named, unknown = await asyncio.gather(
        run("doctor", "nodes", "detached", *unreachable, "-o", "json", KUBECONFIG=str(tmp_path / "none")),
        run("doctor", "weather", *unreachable, KUBECONFIG=str(tmp_path / "none")),
    )
    assert {finding["check"] for finding in json.loads(named[1])["findings"]} == {"nodes", "detached"}
    assert unknown[0] == 2
    assert "there is no check weather; the checks are kubernetes, versions," in unknown[1]


def test_the_checks_that_texts_name_exist() -> None:
    """Messages, runbooks and pages: `equipoise doctor detached` was written in six places before it existed."""
    places = ("docs/**/*.md", "libs/**/src/**/*.py", "services/**/src/**/*.py", "monitoring/*.py")
    files = [file for place in places for file in ROOT.glob(place)]
    named = {name for file in files for name in re.findall(r"`equipoise doctor ([a-z]+)`", file.read_text())}
    assert {"clocks", "detached"} <= named <= set(CHECKS)


@pytest.mark.parametrize(
    ("options", "text"),
    [
        (("--context", "nowhere"), "nowhere"),
        (("--prometheus", "prometheus:9090"), "url"),
        (("--user", "tap"), "together"),
    ],
)
async def test_invalid_options_are_invalid_input(tmp_path: Path, options: tuple[str, ...], text: str) -> None:
    """Exit code 2, with the option in the error."""
    code, output = await run("doctor", *options, KUBECONFIG=str(tmp_path / "none"))
    assert code == 2, output
    assert text in output or "kubeconfig" in output


async def test_without_errors_the_exit_code_is_0(
    metrics: tuple[Exporter, str], bus: Bus, tmp_path: Path, cluster: Cluster
) -> None:
    """With a real cluster, bus and Prometheus; the unknown use of scores is no error.

    Takes seconds: Prometheus needs several samples, and the API server time to grant what its roles state.
    """
    _, url = metrics
    await cluster.add_nodes([node("well")])
    async with connect_kube(Kubernetes(kubeconfig=str(cluster.kubeconfig)), "doctor", SystemClock()) as kube:
        await until_found(await on_cluster(cluster, kube), all_ok)
    access = ("--nats", bus.url, "--user", "tap", "--password-file", bus.password_file("tap"))
    file = tmp_path / "equipoise.yaml"
    file.write_text(
        "apiVersion: equipoise.dev/v1alpha1\nkind: EquipoiseConfiguration\ndescheduler: {intentLifetime: 60s}\n"
    )
    async with beating(bus.settings, *every_service()):
        code, output = await run(
            "doctor", "--config", file, "--prometheus", url, *access, KUBECONFIG=str(cluster.kubeconfig)
        )
    assert code == 0, output
    assert "the clocks differ by at most" in output
    assert "stream EQUIPOISE_PLACEMENT: has" in output
    # The default windows are longer than this Prometheus has run.
    assert "profile kubelet has series of 1 nodes, and measures none" in output
    assert "0 errors, " in output


async def test_another_installation_in_the_cluster_is_named() -> None:
    """An error in the younger one, which writes nothing, and a warning in the older one."""
    kube = MemoryKube(SystemClock())
    now = SystemClock().now()
    kube.put(LEASES, a_lease("equipoise-system", created=now - 100, renewed=now))
    kube.put(LEASES, a_lease("balance", created=now - 200, renewed=now))
    _, younger = await findings_of("kubernetes", environment(kube))
    assert (younger.state, "in namespace balance, and is older" in younger.message) == ("error", True)
    kube.put(LEASES, a_lease("balance", created=now - 50, renewed=now))
    _, older = await findings_of("kubernetes", environment(kube))
    assert (older.state, "in namespace equipoise-system, and is older" in older.message) == ("warning", True)
