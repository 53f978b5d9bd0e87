"""`equipoise report` on a real API server and a real Prometheus."""

import asyncio
import json
import re
import signal
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
import yaml
from cli.programs import invoke, run, started
from cluster_fixtures import StartCluster
from collector.exporter import Exporter, a_job, a_node, prometheus
from collector.scraped_pages import cadvisor, exporter_job, kubelet_job, node_exporter
from kubelets import kubelet_arguments, serve_kubelet, write_forwards

from equipoise.cli.exit_codes import TERMINATED
from equipoise.cli.report.now.run import windows_used
from equipoise.cli.service_settings import SERVICE_SETTINGS
from equipoise.cli.up.run import set_profile
from equipoise.descheduler.decisions.strategies.level_day import LevelDay
from equipoise.descheduler.decisions.strategies.low_node_load import LowNodeLoad
from equipoise.descheduler.decisions.strategies.make_room import MakeRoom
from equipoise.runtime.configuration import read_sections, to_document
from equipoise.testbed.binaries.build import Binaries
from equipoise.testbed.cluster import Cluster
from equipoise.testbed.objects import constant_usage_annotations, deployment, node, pod_template
from equipoise.testbed.processes.command_lines import KWOK
from equipoise.testbed.processes.configuration import PrometheusConfiguration

pytestmark = pytest.mark.timeout(300)

# Prometheus scrapes four times a second, so five minutes are five seconds.
QUICK: dict[str, Any] = {
    "apiVersion": "equipoise.dev/v1alpha1",
    "kind": "EquipoiseConfiguration",
    "load": {
        "windows": [{"name": "5m", "length": "5s", "refreshPeriod": "1s"}],
        "coverage": {"nodeSettlingPeriod": "1s"},
    },
    "protection": {"replicasSettlingPeriod": "1s"},
    "collector": {"profile": {"day": "48s"}},
}

READER = ("nodes", "pods", "namespaces", "replicationcontrollers")
APPS = ("deployments", "replicasets", "statefulsets")


@pytest.fixture(scope="module")
def configuration(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("now") / "equipoise.yaml"
    file.write_text(json.dumps(QUICK))
    return file


@pytest.fixture(scope="module")
async def cluster(start_cluster: StartCluster, tmp_path_factory: pytest.TempPathFactory) -> Cluster:
    """`hot`: four pods of `greedy` use 3.6 of its 4 cores and request 0.4; `idle` has a pod of `calm`.

    Port 9090 of every pod is that of Prometheus.
    """
    folder = tmp_path_factory.mktemp("kubelet")
    scraping = PrometheusConfiguration(scrape_interval=0.25)
    cluster = await asyncio.to_thread(start_cluster, prometheus=scraping, arguments=kubelet_arguments(folder, {}))
    port = urlsplit(cluster.prometheus_url).port
    assert port is not None
    write_forwards(folder, {9090: port})
    await asyncio.to_thread(cluster.restart, KWOK)
    await cluster.add_nodes([node("hot", cpu=4)])
    greedy = pod_template("greedy", annotations=constant_usage_annotations(900, 256))
    await cluster.apply([deployment("greedy", greedy, replicas=4)])
    await all_run(cluster, 4)
    await cluster.add_nodes([node("idle", cpu=4), node("plane", cpu=4, taints=[CONTROL_PLANE])])
    calm = pod_template("calm", cpu="2", annotations=constant_usage_annotations(100, 256))
    await cluster.apply([deployment("calm", calm)])
    await all_run(cluster, 5)
    return cluster


CONTROL_PLANE = {"key": "node-role.kubernetes.io/control-plane", "effect": "NoSchedule"}


async def all_run(cluster: Cluster, pods: int) -> None:
    await cluster.wait(
        "/api/v1/namespaces/default/pods",
        lambda found: [pod["status"].get("phase") for pod in found["items"]] == pods * ["Running"],
    )


async def reported(
    cluster: Cluster, configuration: Path, wanted: Callable[[dict[str, Any]], object], kubeconfig: Path | None = None
) -> dict[str, Any]:
    """The report once it is as wanted: Prometheus has just begun to scrape."""
    async with asyncio.timeout(100):
        while True:
            code, output = await now(cluster, configuration, "-o", "json", kubeconfig=kubeconfig)
            if code == 0:
                found: dict[str, Any] = json.loads(output)
                if wanted(found):
                    return found
            await asyncio.sleep(0.5)


async def printed(cluster: Cluster, configuration: Path, wanted: str, kubeconfig: Path) -> str:
    """The report as text, once it contains this."""
    text = ""
    try:
        async with asyncio.timeout(100):
            while wanted not in text:
                code, text = await now(cluster, configuration, kubeconfig=kubeconfig)
                assert 0 == code, text
    except TimeoutError:
        pytest.fail(f"{wanted!r} is not in the report:\n{text}")
    return text


async def now(
    cluster: Cluster, configuration: Path, *arguments: str, kubeconfig: Path | None = None, **variables: str
) -> tuple[int, str]:
    return await invoked(
        "report", "--config", configuration, "--prometheus", cluster.prometheus_url, *arguments,
        KUBECONFIG=str(kubeconfig or cluster.kubeconfig), **variables,
    )  # fmt: skip


async def invoked(*arguments: str | Path, **variables: str) -> tuple[int, str]:
    """Exit code and output, in this process: a process of its own takes a second to start."""
    result = await asyncio.to_thread(invoke, *map(str, arguments), **variables)
    return result.exit_code, result.output


def rights(*core: str, apps: Sequence[str] = APPS, policy: Sequence[str] = ("poddisruptionbudgets",)) -> list[Any]:
    """Rules that only permit to list."""
    groups = {"": core, "apps": apps, "policy": policy, "batch": ("jobs",)}
    return [
        {"apiGroups": [group], "resources": list(resources), "verbs": ["list"]}
        for group, resources in groups.items()
        if resources
    ]


async def a_reader(cluster: Cluster, name: str, rules: list[Any], folder: Path) -> Path:
    """A kubeconfig of a user with only these rights."""
    account = {"kind": "ServiceAccount", "name": name, "namespace": "default"}
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": name}
    rbac = {"apiVersion": "rbac.authorization.k8s.io/v1", "metadata": {"name": name}}
    await cluster.apply(
        [
            {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": name, "namespace": "default"}},
            {**rbac, "kind": "ClusterRole", "rules": rules},
            {**rbac, "kind": "ClusterRoleBinding", "roleRef": role, "subjects": [account]},
        ]
    )
    token = (await cluster.service_account_token("default", name)).read_text()
    file = folder / f"{name}.kubeconfig"
    server = {"server": cluster.url, "certificate-authority": str(cluster.ca_file)}
    document = {
        "current-context": "reader",
        "contexts": [{"name": "reader", "context": {"cluster": "production", "user": name}}],
        "clusters": [{"name": "production", "cluster": server}],
        "users": [{"name": name, "user": {"token": token}}],
    }
    file.write_text(json.dumps(document))
    return file


def settled(report: dict[str, Any]) -> bool:
    """All pods have run through the whole window."""
    return report["pods_measured"] == 5 and abs(report["hottest"][0]["load"]["cpu"] - 0.9) < 0.02


async def test_a_user_that_may_only_list_gets_the_whole_report(
    cluster: Cluster, configuration: Path, tmp_path: Path
) -> None:
    """The profile is detected. Nothing is written: the user could not."""
    kubeconfig = await a_reader(cluster, "reader", rights(*READER), tmp_path)
    report = await reported(
        cluster, configuration, lambda found: settled(found) and found["prospect"]["moves"], kubeconfig
    )

    assert ("kubelet", True) == (report["profile"], report["profile_detected"])
    assert ("reader", 3, 1, 1) == (report["cluster"]["context"], report["nodes"], report["set_apart"], report["hot"])
    assert ["hot", "idle"] == [each["node"] for each in report["hottest"]]
    assert pytest.approx(0.9, abs=0.05) == report["hottest"][0]["load"]["cpu"]
    assert pytest.approx(0.1) == report["hottest"][0]["requested"]["cpu"]
    assert ["greedy"] == [each["workload"]["name"] for each in report["causes"]]
    assert "request too low" == report["causes"][0]["reason"]
    assert [("hot", "idle")] == [(move["node"], move["target"]) for move in report["prospect"]["moves"]]
    assert report["prospect"]["after"]["spread"]["cpu"] < 0.2 < 0.8 < report["before"]["spread"]["cpu"]

    # `settled` allows 8.8 to 9.2.
    text = await printed(cluster, configuration, "it uses 9.0 times its CPU request", kubeconfig)
    assert f"equipoise lab record --prometheus {cluster.prometheus_url} --config {configuration} --out week" in text


@pytest.mark.parametrize(
    ("rules", "code", "text"),
    [
        (rights("nodes", "namespaces"), 1, "this user may not list pods in all namespaces"),
        (rights(*READER, policy=()), 0, "Not known: this user may not list poddisruptionbudgets.policy"),
    ],
)
async def test_a_missing_right_is_named(
    cluster: Cluster, configuration: Path, tmp_path: Path, rules: list[Any], code: int, text: str
) -> None:
    """Without nodes or pods there is no report, without others no plan."""
    kubeconfig = await a_reader(cluster, f"reader-{code}", rules, tmp_path)
    await reported(cluster, configuration, lambda found: True)
    found = await now(cluster, configuration, kubeconfig=kubeconfig)

    assert code == found[0], found[1]
    assert text in found[1]


@pytest.fixture(scope="module")
def empty(testbed_binaries: Binaries, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A Prometheus that scrapes nothing."""
    with prometheus(testbed_binaries.prometheus, tmp_path_factory.mktemp("empty"), []) as url:
        yield url


@pytest.fixture(scope="module")
def foreign(testbed_binaries: Binaries, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A Prometheus of another cluster."""
    exporter = Exporter()
    exporter.show("page", a_node(1.0))
    jobs = [a_job("elsewhere", exporter, "page", node="elsewhere")]
    with prometheus(testbed_binaries.prometheus, tmp_path_factory.mktemp("foreign"), jobs) as url:
        yield url
    exporter.close()


async def fails(cluster: Cluster, *arguments: str, text: str) -> str:
    """Exit code 1, once the message contains the text: Prometheus may just have started."""
    async with asyncio.timeout(100):
        while True:
            code, output = await invoked("report", *arguments, KUBECONFIG=str(cluster.kubeconfig))
            assert code == 1, output
            if text in output:
                return output


async def test_a_prometheus_without_our_metrics_is_named(cluster: Cluster, empty: str, foreign: str) -> None:
    """With the series that were looked for, and with what to do."""
    output = await fails(cluster, "--prometheus", empty, text="no profile fits")
    assert "node_cpu_usage_seconds_total and node_memory_working_set_bytes (kubelet)" in output
    assert 'one has instance="' not in output
    await fails(cluster, "--prometheus", foreign, text="no series has a node of this cluster; one has")
    output = await fails(cluster, "--prometheus", "http://127.0.0.1:9", text="cannot be queried")
    assert "http://NAME.NAMESPACE.svc:PORT" in output


@pytest.fixture(scope="module")
def stack(testbed_binaries: Binaries, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A Prometheus that scrapes `hot` as kube-prometheus-stack does."""
    exporter = Exporter()
    exporter.show("node-exporter/hot", node_exporter(busy=1.5))
    exporter.show("cadvisor/hot", cadvisor({"default/greedy": 0.5}))
    jobs = [exporter_job(exporter, "hot", "hot"), kubelet_job(exporter, "hot", "hot")]
    with prometheus(testbed_binaries.prometheus, tmp_path_factory.mktemp("stack"), jobs) as url:
        yield url
    exporter.close()


def up_document(cluster: Cluster, url: str) -> dict[str, Any]:
    document = to_document(*read_sections({}, SERVICE_SETTINGS))
    document["kubernetes"] |= {"kubeconfig": str(cluster.kubeconfig)}
    document["collector"]["prometheus"]["url"] = url
    return document


async def test_up_detects_the_profile(cluster: Cluster, stack: str, empty: str) -> None:
    """A configured one stays. Without one that fits, `up` begins with the default, and prints what is missing."""
    document = up_document(cluster, stack)
    async with asyncio.timeout(60):
        while await set_profile(document, detect=True) != "profile kube-prometheus (detected)":  # noqa: ASYNC110  scrapes
            await asyncio.sleep(0.2)
    assert "kube-prometheus" == document["collector"]["prometheus"]["profile"]

    document = up_document(cluster, stack)
    assert "profile kubelet" == await set_profile(document, detect=False)
    line = await set_profile(up_document(cluster, empty), detect=True)
    assert line.startswith("profile kubelet, which was not detected")
    assert "node_cpu_seconds_total" in line
    line = await set_profile(up_document(cluster, "http://127.0.0.1:9"), detect=True)
    assert "cannot be queried" in line


async def test_nodes_are_listed_with_load_and_requests(cluster: Cluster, configuration: Path) -> None:
    """In every format, and again and again."""
    await reported(cluster, configuration, settled)
    options = ("--config", configuration, "--prometheus", cluster.prometheus_url)
    access = {"KUBECONFIG": str(cluster.kubeconfig)}

    code, text = await invoked("nodes", *options, "-o", "yaml", **access)
    assert 0 == code, text
    listed = yaml.safe_load(text)
    assert ["hot", "idle", "plane"] == [each["node"] for each in listed["nodes"]]
    assert pytest.approx(0.9, abs=0.05) == listed["nodes"][0]["load"]["cpu"]
    code, text = await invoked("nodes", *options, "-o", "wide", **access)
    assert re.search(r"hot +\d+\.\d% +10\.0% .* 3\.6 +4\.0 ", text), text
    assert "control plane" in text
    code, text = await invoked("pods", "--node", "hot", *options, "-o", "json", **access)
    pods = json.loads(text)
    assert {"hot"} == {each["node"] for each in pods["pods"]}, text
    assert pytest.approx(pods["of"]["load"]["cpu"], abs=0.1) == sum(each["load"]["cpu"] or 0 for each in pods["pods"])
    code, text = await invoked("pods", "--node", "nowhere", *options, **access)
    assert (1, True) == (code, "there is no node nowhere (there are: hot, idle, plane)" in text), text
    watching = await started("nodes", "--watch", "1", *options, "-o", "json", **access)
    await watching.prints(r'(?s)"window":"5m".*\n.*"window":"5m"')
    watching.process.send_signal(signal.SIGINT)
    assert 130 == await watching.ends()


@pytest.fixture
async def in_cluster(cluster: Cluster) -> AsyncIterator[str]:
    """The Prometheus of the testbed as that of the operator: the URL of its Service."""
    labels = {"app.kubernetes.io/name": "prometheus"}
    service = {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": "prometheus-operated", "namespace": "default"},
        "spec": {"clusterIP": "None", "selector": labels, "ports": [{"port": 9090, "targetPort": "http-web"}]},
    }
    # A new pod counts with its request. Without one, it would count with as much as `calm` uses.
    requests = {"cpu": "10m", "memory": "16Mi"}
    container = {
        "name": "prometheus",
        "image": "p",
        "ports": [{"name": "http-web", "containerPort": 9090}],
        "resources": {"requests": requests},
    }
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "prometheus-0", "namespace": "default", "labels": labels},
        "spec": {"nodeName": "plane", "containers": [container]},
    }
    await cluster.apply([service, pod])
    path = "/api/v1/namespaces/default/pods/prometheus-0"
    await cluster.wait(path, lambda pod: "Ready" in conditions(pod))
    await serve_kubelet(cluster, "plane")

    yield "http://prometheus-operated.default.svc:9090"
    async with cluster.api() as api:
        await api.request("DELETE", path)
        await api.request("DELETE", "/api/v1/namespaces/default/services/prometheus-operated")
    await all_run(cluster, 5)


def conditions(pod: dict[str, Any]) -> set[str]:
    return {each["type"] for each in pod["status"].get("conditions", ()) if each["status"] == "True"}


async def test_nothing_but_the_kubeconfig_is_needed(
    cluster: Cluster, configuration: Path, in_cluster: str, tmp_path: Path
) -> None:
    """The Prometheus of the cluster is found, and its port is forwarded. What is printed first is which one it is."""
    await reported(cluster, configuration, lambda found: True)
    access = {"KUBECONFIG": str(cluster.kubeconfig)}
    note = f"Prometheus {in_cluster}, found in the cluster. Choose another one with --prometheus URL"
    code, output = await run("report", "--config", configuration, "-o", "json", **access)
    assert 0 == code, output
    first, text = output.split("\n", maxsplit=1)
    assert note == first
    report = json.loads(text)
    assert (in_cluster, "kubelet", True) == (report["prometheus"], report["profile"], report["profile_detected"])
    assert ["hot", "idle"] == [each["node"] for each in report["hottest"]]

    code, output = await run("nodes", "--config", configuration, "--prometheus", in_cluster, "-o", "yaml", **access)
    assert 0 == code, output
    assert ["hot", "idle", "plane"] == [each["node"] for each in yaml.safe_load(output)["nodes"]]

    code, output = await run("lab", "record", "--step", "60", "--days", "0.01", "--out", tmp_path / "week", **access)
    assert note in output, output
    assert "127.0.0.1" not in output

    _, output = await run("doctor", "-o", "json", **access)
    first, text = output.split("\n", maxsplit=1)
    assert note == first
    found = {each["subject"]: each["state"] for each in json.loads(text)["findings"]}
    # The default windows are longer than this Prometheus has run.
    assert ("warning", "ok") == (found[in_cluster], found["Kubernetes"])

    kubeconfig = await a_reader(cluster, "no-forwards", rights(*READER, "services"), tmp_path)
    code, output = await run("report", KUBECONFIG=str(kubeconfig))
    assert 1 == code
    assert "needed are the rights to get and create pods/portforward" in output


async def test_up_needs_nothing_but_the_kubeconfig_either(cluster: Cluster, in_cluster: str) -> None:
    """Its services, which are other processes, measure the nodes through the forwarded port."""
    up = await started("up", KUBECONFIG=str(cluster.kubeconfig))
    try:
        await up.prints(f"Prometheus {in_cluster}, found in the cluster")
        await up.prints(rf"metrics +{in_cluster}, profile kubelet \(detected\)")
        await up.prints("collector is ready")
    finally:
        up.process.terminate()
    assert TERMINATED == await up.ends()


def test_a_strategy_that_names_no_window_uses_the_shortest() -> None:
    """Others have no such setting."""
    assert windows_used([LowNodeLoad(windows=("15m", "1h"))], "5m") == {"15m", "1h"}
    assert windows_used([LevelDay(), MakeRoom()], "5m") == {"5m"}
