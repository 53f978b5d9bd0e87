"""A real control plane, fake nodes, real measurements: started, used, broken, repaired, gone."""

import asyncio
import itertools
import json
import signal
import socket
import statistics
import time
import urllib.parse
import urllib.request
from pathlib import Path
from typing import Any

import pytest

from equipoise.testbed.api import ApiError
from equipoise.testbed.audit import pod_writes
from equipoise.testbed.binaries.paths import Binaries
from equipoise.testbed.cluster import Cluster, ClusterError
from equipoise.testbed.objects import (
    daemon_set,
    deployment,
    eviction,
    namespace,
    node,
    pod,
    pod_disruption_budget,
    pod_template,
    stateful_set,
)
from equipoise.testbed.processes.configuration import PrometheusConfiguration
from equipoise.testbed.pytest_fixture import StartCluster
from equipoise.testbed.running_clusters import process_start
from equipoise.testbed.usage import constant_usage_annotations, usage_annotations

PODS = "/api/v1/namespaces/default/pods"
SCRAPE = 0.25


@pytest.fixture(scope="module")
def cluster(start_cluster: StartCluster) -> Cluster:
    cluster = start_cluster(nats=True, prometheus=PrometheusConfiguration(scrape_interval=SCRAPE))
    asyncio.run(cluster.add_nodes([node("alpha", cpu=4), node("beta", cpu=4, labels={"pool": "spot"})]))
    return cluster


def query(cluster: Cluster, promql: str) -> list[dict[str, Any]]:
    url = f"{cluster.prometheus_url}/api/v1/query?{urllib.parse.urlencode({'query': promql})}"
    with urllib.request.urlopen(url, timeout=60) as response:
        found: list[dict[str, Any]] = json.load(response)["data"]["result"]
        return found


def slope(samples: list[tuple[float, float]]) -> float:
    """How fast a counter rises: the median over all pairs of samples (Theil and Sen), deaf to a late scrape."""
    return statistics.median(
        (after - before) / (then - at) for (at, before), (then, after) in itertools.combinations(samples, 2)
    )


def all_running(count: int) -> Any:
    return lambda seen: (
        len(seen["items"]) == count and all(item["status"]["phase"] == "Running" for item in seen["items"])
    )


async def test_two_clusters_at_once(cluster: Cluster, testbed_binaries: Binaries) -> None:
    """Two clusters share nothing, and one that is left is gone within seconds, files and all."""
    async with Cluster(binaries=testbed_binaries) as other:
        await other.add_nodes([node("gamma")])
        here = await cluster.request("GET", "/api/v1/nodes")
        there = await other.request("GET", "/api/v1/nodes")
        pids = [other.pid(part) for part in other.parts]
        began = time.monotonic()
    took = time.monotonic() - began

    assert ["alpha", "beta"] == [item["metadata"]["name"] for item in here["items"]]
    assert ["gamma"] == [item["metadata"]["name"] for item in there["items"]]
    assert [None] * 6 == [process_start(pid) for pid in pids]
    assert not other.directory.exists()
    assert took < 10
    cluster.check()


async def test_workloads_run(cluster: Cluster) -> None:
    """Deployments, StatefulSets, DaemonSets and single pods are scheduled and run on the fake nodes."""
    template = pod_template("many", spec={"nodeSelector": {"pool": "spot"}})
    await cluster.apply([namespace("work")])
    await cluster.apply(
        [
            deployment("web", pod_template("web"), replicas=3, namespace="work"),
            stateful_set("store", pod_template("store"), replicas=2, namespace="work"),
            daemon_set("agent", pod_template("agent"), namespace="work"),
            pod("single", template, namespace="work"),
        ]
    )
    pods = await cluster.wait("/api/v1/namespaces/work/pods", all_running(8))
    single = next(item for item in pods["items"] if item["metadata"]["name"] == "single")

    assert single["spec"]["nodeName"] == "beta"


async def test_usage_curve_reaches_prometheus(cluster: Cluster) -> None:
    """Every sample of a curve's memory is the step's value, its CPU rate right within 5 %; steps lie in phase."""
    step, cpu, memory = 3, [100.0, 300.0, 50.0], [64.0, 128.0, 32.0]
    # An epoch to come: the curve is cyclic in both directions.
    epoch = int(time.time()) + 1000 * step * len(cpu)  # noqa: TID251 - the phase is against the real clock
    curve = pod_template("curve", annotations=usage_annotations(cpu, memory, step, epoch))
    constant = pod_template("constant", annotations=constant_usage_annotations(250, 100))
    await cluster.apply([pod("curve", curve), pod("constant", constant), pod("idle", pod_template("idle"))])
    await cluster.wait(f"{PODS}/curve", lambda seen: seen["status"]["phase"] == "Running")

    def told(metric: str, name: str) -> list[tuple[float, float]]:
        found = query(cluster, f'{metric}{{pod="{name}",namespace="default"}}[8s]')[0]["values"]
        return [(at, float(value)) for at, value in found]

    def expected(curve: list[float], at: float) -> float:
        return curve[int((at - epoch) // step) % len(curve)]

    def settled(at: float) -> bool:
        """Not so near a step that the scrape itself may lie on its other side, late as it may be."""
        return 0.5 < (at - epoch) % step < step - 0.5

    def steps(samples: list[tuple[float, float]]) -> list[list[tuple[float, float]]]:
        """Those that were scraped often enough."""
        steady = (sample for sample in samples if settled(sample[0]))
        by_step = itertools.groupby(steady, key=lambda sample: (sample[0] - epoch) // step)
        return [inside for _, group in by_step if len(inside := list(group)) >= 5]

    async with asyncio.timeout(90):
        while True:  # a pause of the machine may leave too little of a step
            await asyncio.sleep(step)
            samples = told("pod_memory_working_set_bytes", "curve")
            counter = told("pod_cpu_usage_seconds_total", "curve")
            if len(steps(samples)) >= 2 and len(steps(counter)) >= 2:
                break
    idle = query(cluster, 'pod_cpu_usage_seconds_total{pod="idle"}')

    steady = [(at, value) for at, value in samples if settled(at)]
    assert [expected(memory, at) * 2**20 for at, _ in steady] == [value for _, value in steady]
    seen = {expected(cpu, inside[0][0]) / 1000: slope(inside) for inside in steps(counter)}
    assert len(seen) >= 2
    assert list(seen.values()) == pytest.approx(list(seen), rel=0.05)
    assert slope(told("pod_cpu_usage_seconds_total", "constant")) == pytest.approx(0.25, rel=0.05)
    assert float(idle[0]["value"][1]) == 0


async def test_the_audit_log_is_a_witness_of_evictions(cluster: Cluster) -> None:
    """Evictions are read back with their outcome, dry runs apart, and bindings with their node."""
    await cluster.apply(
        [
            namespace("audited"),
            deployment("shop", pod_template("shop"), replicas=3, namespace="audited"),
            pod_disruption_budget("shop", "shop", max_unavailable=0, namespace="audited"),
            deployment("free", pod_template("free"), replicas=4, namespace="audited"),
        ]
    )
    pods_path = "/api/v1/namespaces/audited/pods"
    pods = (await cluster.wait(pods_path, all_running(7)))["items"]
    free = [item["metadata"] for item in pods if item["metadata"]["name"].startswith("free")]
    held = next(item["metadata"] for item in pods if item["metadata"]["name"].startswith("shop"))
    in_body = eviction(free[1]["name"], namespace="audited", uid=free[1]["uid"])
    in_body["deleteOptions"]["dryRun"] = ["All"]
    attempts = [
        (free[0], eviction(free[0]["name"], namespace="audited"), "?dryRun=All"),
        (free[1], in_body, ""),
        (free[2], eviction(free[2]["name"], namespace="audited", uid=free[2]["uid"]), ""),
        (free[3], eviction(free[3]["name"], namespace="audited", uid="another"), ""),
        (held, eviction(held["name"], namespace="audited"), ""),
    ]
    for metadata, body, asked in attempts:
        try:
            await cluster.request("POST", f"{pods_path}/{metadata['name']}/eviction{asked}", body)
        except ApiError as error:
            assert error.status in (409, 429)  # noqa: PT017 - two of five are refused
    await cluster.wait(pods_path, lambda seen: free[2]["name"] not in str(seen["items"]))

    seen = [each for each in cluster.evictions() if each.namespace == "audited"]
    assert [
        (free[0]["name"], 201, True, None, False),
        (free[1]["name"], 201, True, free[1]["uid"], False),
        (free[2]["name"], 201, False, free[2]["uid"], True),
        (free[3]["name"], 409, False, "another", False),
        (held["name"], 429, False, None, False),
    ] == [(each.pod, each.code, each.dry_run, each.uid, each.succeeded) for each in seen]
    assert {"admin"} == {each.user for each in seen}
    nodes = {item["metadata"]["name"]: item["spec"]["nodeName"] for item in pods}
    bound = {each.pod: each.node for each in cluster.bindings() if each.namespace == "audited"}
    assert nodes.items() <= bound.items()
    async with asyncio.timeout(60):  # a deletion is seen by others before it is in the log
        while True:
            writes = [each for each in pod_writes(cluster.audit_log) if each.namespace == "audited"]
            if free[2]["name"] in {each.pod for each in writes if each.verb == "delete"}:
                break
            await asyncio.sleep(0.05)
    assert set(nodes) <= {each.pod for each in writes if (each.user, each.subresource) == ("kwok", "status")}
    assert free[3]["name"] not in {each.pod for each in writes if each.verb == "delete"}


async def test_a_scheduler_with_another_configuration(cluster: Cluster) -> None:
    """The scheduler takes a new configuration while the rest runs."""
    await cluster.apply([pod("waiting", pod_template("waiting", spec={"schedulerName": "second"}))])
    await asyncio.to_thread(
        cluster.restart_scheduler,
        {"profiles": [{"schedulerName": "default-scheduler"}, {"schedulerName": "second"}]},
    )
    bound = await cluster.wait(f"{PODS}/waiting", lambda seen: seen["status"]["phase"] == "Running")

    assert bound["spec"]["nodeName"] in ("alpha", "beta")


async def test_a_part_that_dies_and_comes_back(cluster: Cluster) -> None:
    """A killed part is reported by name, and serves the same data at the same place after its restart."""
    cluster.kill("kube-apiserver")
    with pytest.raises(ClusterError, match="kube-apiserver has ended with code -9"):
        cluster.check()
    await asyncio.to_thread(cluster.restart, "kube-apiserver")
    cluster.check()
    nodes = await cluster.request("GET", "/api/v1/nodes")

    assert len(nodes["items"]) == 2


async def test_a_part_that_hangs(cluster: Cluster) -> None:
    """Any signal may be sent: a stopped NATS server is silent and wakes again."""
    address = urllib.parse.urlsplit(cluster.nats_url)

    def greeting(within: float) -> bytes:
        with socket.create_connection((address.hostname or "", address.port or 0), timeout=within) as client:
            try:
                return client.recv(4096)
            except TimeoutError:
                return b""

    def stands_still() -> bool:
        """Every thread: a signal takes a moment."""
        tasks = Path(f"/proc/{cluster.pid('nats-server')}/task").glob("*/stat")
        return all(task.read_text().rsplit(")", 1)[1].split()[0] == "T" for task in tasks)

    cluster.kill("nats-server", signal.SIGSTOP)
    while not stands_still():
        time.sleep(0.01)  # noqa: ASYNC251  the kernel tells nobody
    silent = greeting(0.3)
    cluster.kill("nats-server", signal.SIGCONT)

    assert silent == b""
    assert b'"jetstream":true' in greeting(60)


async def test_prometheus_takes_new_rules(cluster: Cluster) -> None:
    """Rules and scrape entries come by reload, the data stay."""
    cluster.configure_prometheus(
        PrometheusConfiguration(
            scrape_interval=SCRAPE,
            rules=[{"name": "ours", "rules": [{"record": "nodes:count", "expr": "count(scrape_error)"}]}],
        )
    )
    async with asyncio.timeout(60):
        while not (found := query(cluster, "nodes:count")):  # noqa: ASYNC110
            await asyncio.sleep(SCRAPE)

    assert found[0]["value"][1] == "2"


async def test_a_service_account_as_in_a_pod(cluster: Cluster) -> None:
    """A token of a service account is its own, has its rights, and lies as in a pod."""
    await cluster.apply(
        [
            {
                "apiVersion": "v1",
                "kind": "ServiceAccount",
                "metadata": {"name": "binder", "namespace": "default"},
            },
            {
                "apiVersion": "rbac.authorization.k8s.io/v1",
                "kind": "ClusterRole",
                "metadata": {"name": "reads-nodes"},
                "rules": [{"apiGroups": [""], "resources": ["nodes"], "verbs": ["list"]}],
            },
            {
                "apiVersion": "rbac.authorization.k8s.io/v1",
                "kind": "ClusterRoleBinding",
                "metadata": {"name": "reads-nodes"},
                "roleRef": {
                    "apiGroup": "rbac.authorization.k8s.io",
                    "kind": "ClusterRole",
                    "name": "reads-nodes",
                },
                "subjects": [{"kind": "ServiceAccount", "name": "binder", "namespace": "default"}],
            },
        ]
    )
    file = await cluster.service_account_token("default", "binder")
    token = file.read_text()
    review = {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}
    who = await cluster.request("POST", "/apis/authentication.k8s.io/v1/selfsubjectreviews", review, token=token)
    nodes = await cluster.request("GET", "/api/v1/nodes", token=token)
    with pytest.raises(ApiError) as refused:
        await cluster.request("GET", "/api/v1/pods", token=token)

    assert who["status"]["userInfo"]["username"] == "system:serviceaccount:default:binder"
    assert len(nodes["items"]) == 2
    assert refused.value.status == 403
    assert {"token", "ca.crt", "namespace"} == {path.name for path in file.parent.iterdir()}
    assert cluster.url.endswith(cluster.in_cluster_environment["KUBERNETES_SERVICE_PORT"])


async def test_manifests_of_many_kinds(cluster: Cluster) -> None:
    """Whatever an installation holds is applied, twice without a change, and a List is taken apart."""
    meta = {"name": "thing", "namespace": "default"}
    policy = "admissionregistration.k8s.io/v1"
    documents: list[dict[str, Any]] = [
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta, "data": {"a": "b"}},
        {"apiVersion": "v1", "kind": "Secret", "metadata": meta, "stringData": {"a": "b"}},
        {
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": meta,
            "spec": {"ports": [{"port": 80}], "selector": {"app": "thing"}},
        },
        {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": meta, "spec": {}},
        {
            "apiVersion": "batch/v1",
            "kind": "Job",
            "metadata": meta,
            "spec": {
                "template": {"spec": {"restartPolicy": "Never", "containers": [{"name": "main", "image": "fake"}]}}
            },
        },
        {
            "apiVersion": policy,
            "kind": "ValidatingAdmissionPolicy",
            "metadata": {"name": "thing"},
            "spec": {
                "matchConstraints": {
                    "resourceRules": [
                        {
                            "apiGroups": [""],
                            "apiVersions": ["v1"],
                            "operations": ["UPDATE"],
                            "resources": ["nodes"],
                        }
                    ]
                },
                "validations": [{"expression": "object.spec == oldObject.spec"}],
            },
        },
        {
            "apiVersion": policy,
            "kind": "ValidatingAdmissionPolicyBinding",
            "metadata": {"name": "thing"},
            "spec": {
                "policyName": "thing",
                "validationActions": ["Deny"],
                "matchResources": {"namespaceSelector": {"matchLabels": {"no": "where"}}},
            },
        },
    ]
    listed = {"apiVersion": "v1", "kind": "List", "items": documents}
    first = await cluster.apply([listed])
    second = await cluster.apply(documents)
    await cluster.wait("/apis/batch/v1/namespaces/default/jobs/thing", lambda job: job["status"].get("succeeded") == 1)

    assert [item["metadata"]["uid"] for item in first] == [item["metadata"]["uid"] for item in second]
    with pytest.raises(LookupError, match="has no Deploymnt in apps/v1"):
        await cluster.apply([{"apiVersion": "apps/v1", "kind": "Deploymnt", "metadata": meta}])


def test_a_part_that_cannot_start(testbed_binaries: Binaries, tmp_path: Path) -> None:
    """A cluster that does not come up says which part and shows what it said, and leaves nothing running."""
    cluster = Cluster(
        binaries=testbed_binaries,
        arguments={"etcd": ["--listen-client-urls=http://192.0.2.1:1"]},
        directory=tmp_path / "here",
    )
    with pytest.raises(ClusterError, match=r"etcd ended with code(.|\n)*192.0.2.1:1"):
        cluster.start()

    assert process_start(cluster.guard.pid) is None
