"""`equipoise doctor` on real parts: a nats-server, a Prometheus, API servers in memory and real, the program itself."""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
import nats
import pytest
from bus_worlds import NatsWorld, free_port
from cli.buses import Bus
from cli.programs import run
from collector.exporter import Exporter, a_job, a_node, prometheus
from deployment.base import NAMESPACE, base_documents

from equipoise.cli.doctor.checks import CHECKS
from equipoise.cli.doctor.environment import Configured, Surroundings
from equipoise.cli.doctor.finding import Finding
from equipoise.cli.doctor.run import diagnose
from equipoise.collector.settings import CollectorSettings, PrometheusSettings
from equipoise.contracts.bus.streams import STREAMS
from equipoise.contracts.bus.subjects import cluster_review
from equipoise.contracts.configuration.duration import Duration
from equipoise.contracts.configuration.settings import LoadSettings, Window
from equipoise.contracts.kubernetes import objects
from equipoise.contracts.messages.advice import ClusterReview, ScoresFollowed
from equipoise.descheduler.settings import DeschedulerSettings
from equipoise.runtime.bus.nats_bus import open_bus
from equipoise.runtime.configuration import Kubernetes, Nats, Shared
from equipoise.runtime.kubernetes.client import NAMESPACES, NODES, SERVICE_ACCOUNTS, Kube, KubeError
from equipoise.runtime.kubernetes.connection import connect_kube
from equipoise.runtime.process.clock import SystemClock
from equipoise.testbed.binaries.paths import Binaries
from equipoise.testbed.cluster import Cluster
from equipoise.testbed.memory.kube import MemoryKube
from equipoise.testbed.objects import node
from equipoise.testbed.pytest_fixture import StartCluster

pytestmark = pytest.mark.filterwarnings("ignore:datetime.datetime.utcnow:DeprecationWarning")

NOWHERE = KubeError(0, "NoCluster", "there is none")
LOAD = LoadSettings(
    windows=(
        Window(name="5m", length=Duration(2), refresh_period=Duration(1)),
        Window(name="1d", length=Duration(6_000), refresh_period=Duration(30)),
    )
)


def around(kube: Kube | KubeError = NOWHERE, bus: Nats | None = None, url: str = "http://127.0.0.1:1") -> Surroundings:
    configured = Configured(
        shared=Shared(nats=bus or Nats(url=f"nats://127.0.0.1:{free_port()}"), load=LOAD),
        collector=CollectorSettings(prometheus=PrometheusSettings(url=url, timeout=30.0)),
        descheduler=DeschedulerSettings(intent_life=Duration(60)),
    )
    return Surroundings(configured=configured, clock=SystemClock(), kube=kube)


async def found(name: str, surroundings: Surroundings) -> list[Finding]:
    """What one check finds."""
    return (await diagnose(surroundings, {name: CHECKS[name]})).findings


def states(findings: list[Finding]) -> dict[str, str]:
    return {finding.where: finding.state for finding in findings}


# the bus


async def test_a_bus_as_it_should_be(bus: Bus) -> None:
    """Every stream, and the user tap with exactly its permissions."""
    findings = await found("bus", around(bus=bus.settings("tap")))
    assert {finding.state for finding in findings} == {"ok"}, findings
    assert {f"stream {stream.name}" for stream in STREAMS} <= states(findings).keys()
    assert any(finding.what == "tap may do what it needs, and nothing else" for finding in findings)


async def test_another_user_may_not_look(bus: Bus) -> None:
    """That is not known, and says as whom to ask: no stream is called missing for it."""
    findings = await found("bus", around(bus=bus.settings("scorer")))
    assert {finding.state for finding in findings if finding.where.startswith("stream")} == {"unknown"}
    assert all("--user tap" in finding.to_do for finding in findings if finding.state == "unknown")


async def test_a_wrong_password_is_an_error(bus: Bus, tmp_path: Path) -> None:
    """With the server's own word, after a few seconds."""
    file = tmp_path / "password"
    file.write_text("guessed")
    [finding] = await found("bus", around(bus=Nats(url=bus.url, user="tap", password_file=str(file))))
    assert finding.state == "error"
    assert "authorization" in finding.what.lower()


async def test_streams_that_are_missing_or_others(tmp_path: Path) -> None:
    """Each by its name; and a server without users is warned of."""
    world = NatsWorld(tmp_path)
    await world.start()
    async with await nats.connect(world.settings.url) as client:
        await client.jetstream().add_stream(name="EQUIPOISE_PLACEMENT", subjects=["equipoise.placement.node.*"])
    findings = await found("bus", around(bus=world.settings))
    await world.stop()
    said = {finding.where: finding for finding in findings}
    assert said["stream EQUIPOISE_INTENT"].what == "does not exist"
    assert "equipoise setup" in said["stream EQUIPOISE_INTENT"].to_do
    assert "keeps equipoise.placement.node.*, not equipoise.placement.>" in said["stream EQUIPOISE_PLACEMENT"].what
    assert "max_msgs_per_subject is -1, not 1" in said["stream EQUIPOISE_PLACEMENT"].what
    assert any("knows no permissions" in finding.what for finding in findings)


# kube-scheduler


async def test_scores_that_scorers_tell_of_are_found(bus: Bus) -> None:
    """From the stream, as the user tap: nothing of a scorer need be reached."""
    now = SystemClock().now()
    assert states(await found("extender", around(bus=bus.settings("tap")))) == {"kube-scheduler": "unknown"}
    told = ScoresFollowed(requests=300, placed=250, followed=0.8, by_chance=0.1)
    review = ClusterReview(since=now - 600, until=now, seen=600.0, nodes=3.0, scores=told)
    async with open_bus(bus.settings("scorer"), "scorer", SystemClock(), None) as open_:
        await open_.publish(cluster_review(int(now // 3_600), int(now)), review)
    [finding] = await found("extender", around(bus=bus.settings("tap")))
    assert finding.state == "ok"
    assert "80% of 250 pods" in finding.what


# Prometheus and nodes


@pytest.fixture(scope="module")
def metrics(testbed_binaries: Binaries, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Exporter, str]]:
    exporter = Exporter()
    jobs = [a_job(name, exporter, name, node=name) for name in ("well", "nan", "twin")]
    jobs.append(a_job("twin-2", exporter, "twin", node="twin"))
    for name, page in (("well", a_node(2.0)), ("nan", a_node(2.0, "NaN")), ("twin", a_node(2.0))):
        exporter.show(name, page)
    with prometheus(testbed_binaries.prometheus, tmp_path_factory.mktemp("prometheus"), jobs) as url:
        yield exporter, url
    exporter.close()


def put_node(kube: MemoryKube, name: str, *, ready: bool = True, **labels: str) -> None:
    status = objects.NodeStatus(
        capacity={"cpu": "16", "memory": "64Gi"},
        allocatable={"cpu": "16", "memory": "64Gi"},
        conditions=[objects.Condition(type="Ready", status="True" if ready else "False")],
    )
    created = datetime(2026, 1, 1, tzinfo=UTC)
    metadata = objects.ObjectMeta(name=name, labels=labels, creation_timestamp=created)
    kube.put(NODES, objects.Node(metadata=metadata, status=status))


async def eventually_found(
    name: str, surroundings: Callable[[], Surroundings], enough: Callable[[dict[str, Finding]], bool]
) -> dict[str, Finding]:
    """By where, as soon as Prometheus has scraped enough for it."""
    async with asyncio.timeout(60):
        while True:
            by_place = {finding.where: finding for finding in await found(name, surroundings())}
            if enough(by_place):
                return by_place
            await asyncio.sleep(0.1)


async def test_each_node_without_data_has_its_reason(metrics: tuple[Exporter, str]) -> None:
    """NaN, twins, no series at all; and of a virtual one and one that is not Ready nothing is expected."""
    _, url = metrics
    kube = MemoryKube(SystemClock())
    for name in ("well", "nan", "twin", "absent"):
        put_node(kube, name)
    put_node(kube, "cloud", type="virtual-kubelet")
    put_node(kube, "down", ready=False)
    said = await eventually_found(
        "nodes", lambda: around(kube, url=url), lambda all_: "node well" not in all_ and "value is nan" in _what(all_)
    )
    assert "memory: value is nan" in said["node nan"].what
    assert "2 series claim to be this node" in said["node twin"].what
    assert "no sample" in said["node absent"].what
    assert said["node absent"].to_do
    assert [said[f"node {name}"].state for name in ("nan", "twin", "absent")] == ["warning"] * 3
    assert [said[f"node {name}"].state for name in ("cloud", "down")] == ["ok"] * 2
    assert "virtual" in said["node cloud"].what
    assert "2 of 4 nodes is known (50%)" in said["nodes"].what
    assert said["nodes"].state == "error"
    assert "known of 0 of 6 nodes" in said["window 1d"].what


def _what(findings: dict[str, Finding]) -> str:
    return " ".join(finding.what for finding in findings.values())


async def test_the_profile_is_judged_by_what_prometheus_has(metrics: tuple[Exporter, str]) -> None:
    """Nodes that are this cluster's, or the labels of one that is not."""
    _, url = metrics
    kube = MemoryKube(SystemClock())
    put_node(kube, "well")
    said = await eventually_found("prometheus", lambda: around(kube, url=url), lambda all_: "1 nodes" in _what(all_))
    assert said[url].state == "warning"
    assert "usage of 0 pods" in said[url].what
    strange = MemoryKube(SystemClock())
    put_node(strange, "somewhere-else")
    findings = await found("prometheus", around(strange, url=url))
    assert "no series names a node of this cluster" in findings[1].what
    assert "nodeLabels" in findings[1].to_do


async def test_clocks_are_compared(metrics: tuple[Exporter, str]) -> None:
    """Of three machines, here one; an API server that is far ahead is an error against both others."""
    _, url = metrics
    kube = MemoryKube(SystemClock())
    assert {"ok"} == set(states(await found("clocks", around(kube, url=url))).values())
    kube.skew = 60.0
    said = states(await found("clocks", around(kube, url=url)))
    assert said["API server and this machine"] == "error"
    assert said["Prometheus and API server"] == "error"
    assert said["Prometheus and this machine"] == "ok"


# the API server: one suite, in memory and real


class Deployed:
    """An API server with the accounts and rights of k8s/base."""

    def __init__(self, kube: Kube, take: Callable[[str, str, str], Awaitable[None]]) -> None:
        self.kube = kube
        self.take = take
        """Take a verb on a resource away from a service."""


async def in_memory() -> Deployed:
    kube = MemoryKube(SystemClock())
    kube.put(
        SERVICE_ACCOUNTS, objects.Object(metadata=objects.ObjectMeta(name="equipoise-collector", namespace=NAMESPACE))
    )
    kube.put(NAMESPACES, objects.Namespace(metadata=objects.ObjectMeta(name="shop")))
    taken: set[tuple[str, str, str]] = set()

    def allows(spec: objects.AccessReviewSpec) -> bool:
        asked = spec.resource_attributes
        assert "system:authenticated" in spec.groups
        return (spec.user.rpartition("-")[2], asked.verb, asked.subresource or asked.resource) not in taken

    async def take(service: str, verb: str, resource: str) -> None:
        taken.add((service, verb, resource))

    kube.allows = allows
    return Deployed(kube, take)


@pytest.fixture(scope="module")
def cluster(start_cluster: StartCluster) -> Cluster:
    return start_cluster()


async def on_cluster(cluster: Cluster, kube: Kube) -> Deployed:
    kinds = ("Namespace", "ServiceAccount", "Role", "ClusterRole", "RoleBinding", "ClusterRoleBinding")
    documents = [document for document in base_documents() if document["kind"] in kinds]
    await cluster.apply(documents)

    async def take(service: str, verb: str, resource: str) -> None:
        for document in documents:
            if document["kind"] != "ClusterRole" or document["metadata"]["name"] not in (
                f"equipoise-{service}",
                "equipoise-evict",
            ):
                continue
            rules = []
            for rule in document["rules"]:
                touched = verb in rule["verbs"] and any(resource in each for each in rule["resources"])
                left = [each for each in rule["verbs"] if each != verb or not touched]
                rules += [{**rule, "verbs": left}] if left else []
            await cluster.apply([{**document, "rules": rules}])

    return Deployed(kube, take)


@pytest.fixture(params=["memory", pytest.param("real", marks=pytest.mark.cluster)])
async def deployed(request: pytest.FixtureRequest) -> AsyncIterator[Deployed]:
    if request.param == "memory":
        yield await in_memory()
        return
    cluster: Cluster = request.getfixturevalue("cluster")
    async with connect_kube(Kubernetes(kubeconfig=str(cluster.kubeconfig)), "doctor", SystemClock()) as kube:
        yield await on_cluster(cluster, kube)


async def until_found(deployed: Deployed, enough: Callable[[list[Finding]], bool]) -> list[Finding]:
    """The authorizer of a real API server hears of each changed role a moment later."""
    async with asyncio.timeout(60):
        while not enough(findings := await found("rights", around(deployed.kube))):  # noqa: ASYNC110
            await asyncio.sleep(0.2)
        return findings


def all_well(findings: list[Finding]) -> bool:
    return {finding.state for finding in findings} == {"ok"}


async def test_accounts_have_their_rights_until_one_is_taken(deployed: Deployed) -> None:
    """As k8s/base gives them everything is well; what is taken is named, with the file that gives it."""
    await until_found(deployed, all_well)
    await deployed.take("collector", "watch", "nodes")
    await deployed.take("binder", "create", "eviction")

    def taken(findings: list[Finding]) -> bool:
        lacking = any(finding.state == "error" for finding in findings)
        return lacking and any("observe" in finding.what for finding in findings)

    findings = await until_found(deployed, taken)
    lacking = next(finding for finding in findings if finding.where == "collector (account equipoise-collector)")
    assert "watch nodes" in lacking.what
    assert lacking.to_do == "apply k8s/base/collector.yaml"
    evictions = next(finding for finding in findings if finding.where.startswith("evictions"))
    assert "observe" in evictions.what
    surroundings = around(deployed.kube)
    wish = msgspec.structs.replace(surroundings.configured.binder, evict=True)
    surroundings.configured = msgspec.structs.replace(surroundings.configured, binder=wish)
    findings = await found("rights", surroundings)
    assert next(finding for finding in findings if finding.where.startswith("evictions")).state == "error"


async def test_the_api_server_and_its_clock_are_found(deployed: Deployed) -> None:
    """It answers, shows its nodes, and tells the time of this machine."""
    assert [finding.state for finding in await found("kubernetes", around(deployed.kube))] == ["ok"]
    assert states(await found("clocks", around(deployed.kube)))["API server and this machine"] == "ok"


async def test_who_may_not_ask_is_told_so() -> None:
    """A refusal is not known, never an error of the services."""
    deployed = await in_memory()
    assert isinstance(deployed.kube, MemoryKube)
    deployed.kube.refuse("create", resource="subjectaccessreviews")
    [finding] = await found("rights", around(deployed.kube))
    assert finding.state == "unknown"
    assert "administrator" in finding.to_do


async def test_without_accounts_it_asks_about_oneself() -> None:
    """As `equipoise up` runs."""
    kube = MemoryKube(SystemClock())
    asked: set[str] = set()

    def allows(spec: objects.AccessReviewSpec) -> bool:
        asked.add(spec.user)
        return spec.resource_attributes.resource != "jobs"

    kube.allows = allows
    findings = await found("rights", around(kube))
    assert asked == {""}
    assert states(findings)["collector (you)"] == "error"
    assert states(findings)["descheduler (you)"] == "ok"


# the whole program


async def test_with_nothing_there_everything_is_said_and_nothing_raised(tmp_path: Path) -> None:
    """Exit code 1, every check with its finding, no traceback, no colours where nobody looks."""
    unreachable = ("--prometheus", "http://127.0.0.1:1", "--nats", "nats://127.0.0.1:1")
    code, said = await run("doctor", *unreachable, KUBECONFIG=str(tmp_path / "none"))
    assert code == 1
    assert "Traceback" not in said
    assert "\x1b" not in said
    assert "no kubeconfig" in said
    code, said = await run("doctor", *unreachable, "-o", "json", KUBECONFIG=str(tmp_path / "none"))
    diagnosis: dict[str, Any] = json.loads(said)
    assert code == 1
    assert not diagnosis["well"]
    assert {finding["check"] for finding in diagnosis["findings"]} == set(CHECKS)
    assert {finding["state"] for finding in diagnosis["findings"]} == {"error", "unknown"}


@pytest.mark.parametrize(
    ("options", "word"),
    [
        (("--context", "nowhere"), "nowhere"),
        (("--prometheus", "prometheus:9090"), "url"),
        (("--user", "tap"), "together"),
    ],
)
async def test_what_cannot_be_meant_is_wrong_input(tmp_path: Path, options: tuple[str, ...], word: str) -> None:
    """Exit code 2, and what to change."""
    code, said = await run("doctor", *options, KUBECONFIG=str(tmp_path / "none"))
    assert code == 2, said
    assert word in said or "kubeconfig" in said


async def test_all_well_is_exit_code_0(
    metrics: tuple[Exporter, str], bus: Bus, tmp_path: Path, cluster: Cluster
) -> None:
    """On a real cluster, bus and Prometheus; what is not known of scores is told and no fault."""
    _, url = metrics
    await cluster.add_nodes([node("well")])
    async with connect_kube(Kubernetes(kubeconfig=str(cluster.kubeconfig)), "doctor", SystemClock()) as kube:
        await until_found(await on_cluster(cluster, kube), all_well)
    access = ("--nats", bus.url, "--user", "tap", "--password-file", bus.password_file("tap"))
    file = tmp_path / "equipoise.yaml"
    file.write_text(
        "apiVersion: equipoise.dev/v1alpha1\nkind: EquipoiseConfiguration\ndescheduler: {intentLifetime: 60s}\n"
    )
    code, said = await run("doctor", "--config", file, "--prometheus", url, *access, KUBECONFIG=str(cluster.kubeconfig))
    assert code == 0, said
    assert "their clocks are at most" in said
    assert "stream EQUIPOISE_INTENT: keeps" in said
    assert "profile kubelet fits" in said
    assert "Nothing is wrong" in said
