"""A real control plane with fake nodes and real measurements."""

import asyncio
import dataclasses
import itertools
import json
import signal
import socket
import statistics
import time
import urllib.parse
import urllib.request
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from cluster_fixtures import StartCluster

from equipoise.testbed.api import ApiError
from equipoise.testbed.audit import pod_writes
from equipoise.testbed.binaries.build import Binaries
from equipoise.testbed.cluster import Cluster, ClusterError
from equipoise.testbed.objects import (
    constant_usage_annotations,
    daemon_set,
    deployment,
    eviction,
    namespace,
    node,
    pod,
    pod_disruption_budget,
    pod_template,
    stateful_set,
    usage_annotations,
)
from equipoise.testbed.processes.configuration import PrometheusConfiguration
from equipoise.testbed.running_clusters import process_start

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
    """Rate of a counter: the median over all pairs of samples (Theil-Sen), which is robust to a late scrape."""
    return statistics.median(
        (after - before) / (then - at) for (at, before), (then, after) in itertools.combinations(samples, 2)
    )


def all_running(count: int) -> Any:
    return lambda pods: (
        len(pods["items"]) == count and all(item["status"]["phase"] == "Running" for item in pods["items"])
    )


async def test_two_clusters_share_nothing(cluster: Cluster, testbed_binaries: Binaries) -> None:
    """Processes and files of a stopped cluster are removed within seconds."""
    async with Cluster(binaries=testbed_binaries) as other:
        await other.add_nodes([node("gamma")])
        nodes = await cluster.request("GET", "/api/v1/nodes")
        other_nodes = await other.request("GET", "/api/v1/nodes")
        pids = [other.pid(name) for name in other.components]
        stopping_at = time.monotonic()
    took = time.monotonic() - stopping_at

    assert ["alpha", "beta"] == [item["metadata"]["name"] for item in nodes["items"]]
    assert ["gamma"] == [item["metadata"]["name"] for item in other_nodes["items"]]
    assert [None] * 6 == [process_start(pid) for pid in pids]
    assert not other.directory.exists()
    assert took < 10
    cluster.check()


async def test_workloads_are_scheduled_and_run(cluster: Cluster) -> None:
    """Deployments, StatefulSets, DaemonSets and bare pods."""
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


class Usage(NamedTuple):
    """One scrape of a pod."""

    at: float
    memory: float
    cpu_seconds: float


LATE = 0.4
"""Seconds. kwok evaluates a curve up to the duration of the scrape after the time of the sample."""


def scraped_usage(cluster: Cluster, pod: str) -> list[Usage]:
    """The scrapes of the last 8 s, without slow ones and without leading zeros.

    Usage is 0 until kwok's own watch has received that the pod runs, which may be seconds after our request has.
    """

    def values(promql: str) -> dict[float, float]:
        found = query(cluster, f"{promql}[8s]")
        return {at: float(value) for at, value in found[0]["values"]} if found else {}

    labels = f'{{pod="{pod}",namespace="default"}}'
    memory, cpu = (values(name + labels) for name in ("pod_memory_working_set_bytes", "pod_cpu_usage_seconds_total"))
    node = query(cluster, f"pod_memory_working_set_bytes{labels}")
    duration = values(f'scrape_duration_seconds{{instance="{node[0]["metric"]["instance"]}"}}') if node else {}
    fast = [at for at in memory if at in cpu and duration.get(at, LATE) < LATE]
    scrapes = [Usage(at, memory[at], cpu[at]) for at in sorted(fast)]
    return list(itertools.dropwhile(lambda scrape: scrape.memory == 0.0, scrapes))


async def test_usage_curves_are_scraped_by_prometheus(cluster: Cluster) -> None:
    """Memory is exactly that of the step; CPU rates are within 15 %."""
    step, cpu, memory = 3, [100.0, 300.0, 50.0], [64.0, 128.0, 32.0]
    # A future epoch: the curve repeats in both directions.
    epoch = int(time.time()) + 1000 * step * len(cpu)  # noqa: TID251  curves follow the real clock
    curve = pod_template("curve", annotations=usage_annotations(cpu, memory, step, epoch))
    constant = pod_template("constant", annotations=constant_usage_annotations(250, 100))
    await cluster.apply([pod("curve", curve), pod("constant", constant), pod("idle", pod_template("idle"))])

    def expected(curve: list[float], at: float) -> float:
        return curve[int((at - epoch) // step) % len(curve)]

    def inner(scrapes: list[Usage]) -> list[Usage]:
        """Scrapes that were evaluated within the step of their time."""
        return [scrape for scrape in scrapes if 0.05 < (scrape.at - epoch) % step < step - LATE]

    def steps(scrapes: list[Usage]) -> list[list[Usage]]:
        """Scrapes by step, of steps with at least five."""
        by_step = itertools.groupby(inner(scrapes), key=lambda scrape: (scrape.at - epoch) // step)
        return [scrapes for _, group in by_step if len(scrapes := list(group)) >= 5]

    async with asyncio.timeout(90):
        while True:  # a pause of the machine may leave too few scrapes in a step
            await asyncio.sleep(step)
            scrapes, constant_scrapes = scraped_usage(cluster, "curve"), scraped_usage(cluster, "constant")
            if len(steps(scrapes)) >= 2 and len(constant_scrapes) >= 10:
                break
    idle = query(cluster, 'pod_cpu_usage_seconds_total{pod="idle"}')

    def rate(scrapes: list[Usage]) -> float:
        return slope([(scrape.at, scrape.cpu_seconds) for scrape in scrapes])

    assert [expected(memory, scrape.at) * 2**20 for scrape in inner(scrapes)] == [
        scrape.memory for scrape in inner(scrapes)
    ]
    rates = {expected(cpu, inside[0].at) / 1000: rate(inside) for inside in steps(scrapes)}
    assert len(rates) >= 2
    assert list(rates.values()) == pytest.approx(list(rates), rel=0.15)
    assert rate(constant_scrapes) == pytest.approx(0.25, rel=0.15)
    assert float(idle[0]["value"][1]) == 0


async def test_evictions_and_bindings_are_read_from_the_audit_log(cluster: Cluster) -> None:
    """Evictions with their outcome, including dry runs."""
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
    blocked = next(item["metadata"] for item in pods if item["metadata"]["name"].startswith("shop"))
    in_body = eviction(free[1]["name"], namespace="audited", uid=free[1]["uid"])
    in_body["deleteOptions"]["dryRun"] = ["All"]
    attempts = [
        (free[0], eviction(free[0]["name"], namespace="audited"), "?dryRun=All"),
        (free[1], in_body, ""),
        (free[2], eviction(free[2]["name"], namespace="audited", uid=free[2]["uid"]), ""),
        (free[3], eviction(free[3]["name"], namespace="audited", uid="another"), ""),
        (blocked, eviction(blocked["name"], namespace="audited"), ""),
    ]
    for metadata, body, parameters in attempts:
        try:
            await cluster.request("POST", f"{pods_path}/{metadata['name']}/eviction{parameters}", body)
        except ApiError as error:
            assert error.status in (409, 429)  # noqa: PT017 - two of five are refused
    await cluster.wait(pods_path, lambda pods: free[2]["name"] not in str(pods["items"]))

    evictions = [each for each in cluster.evictions() if each.namespace == "audited"]
    assert [
        (free[0]["name"], 201, True, None, False),
        (free[1]["name"], 201, True, free[1]["uid"], False),
        (free[2]["name"], 201, False, free[2]["uid"], True),
        (free[3]["name"], 409, False, "another", False),
        (blocked["name"], 429, False, None, False),
    ] == [(each.pod, each.code, each.dry_run, each.uid, each.succeeded) for each in evictions]
    assert {"admin"} == {each.user for each in evictions}
    nodes = {item["metadata"]["name"]: item["spec"]["nodeName"] for item in pods}
    bound = {each.pod: each.node for each in cluster.bindings() if each.namespace == "audited"}
    assert nodes.items() <= bound.items()
    async with asyncio.timeout(60):  # watches may receive a deletion before it is logged
        while True:
            writes = [each for each in pod_writes(cluster.audit_log) if each.namespace == "audited"]
            if free[2]["name"] in {each.pod for each in writes if each.verb == "delete"}:
                break
            await asyncio.sleep(0.05)
    assert set(nodes) <= {each.pod for each in writes if (each.user, each.subresource) == ("kwok", "status")}
    assert free[3]["name"] not in {each.pod for each in writes if each.verb == "delete"}


async def test_the_scheduler_restarts_with_another_configuration(cluster: Cluster) -> None:
    await cluster.apply([pod("waiting", pod_template("waiting", spec={"schedulerName": "second"}))])
    await asyncio.to_thread(
        cluster.restart_scheduler,
        {"profiles": [{"schedulerName": "default-scheduler"}, {"schedulerName": "second"}]},
    )
    bound = await cluster.wait(f"{PODS}/waiting", lambda pod: pod["status"]["phase"] == "Running")

    assert bound["spec"]["nodeName"] in ("alpha", "beta")


async def test_a_killed_component_is_reported_and_can_be_restarted(cluster: Cluster) -> None:
    """With the same address and data."""
    cluster.kill("kube-apiserver")
    with pytest.raises(ClusterError, match="kube-apiserver has ended with code -9"):
        cluster.check()
    await asyncio.to_thread(cluster.restart, "kube-apiserver")
    cluster.check()
    nodes = await cluster.request("GET", "/api/v1/nodes")

    assert len(nodes["items"]) == 2


async def test_a_component_can_be_suspended_and_continued(cluster: Cluster) -> None:
    address = urllib.parse.urlsplit(cluster.nats_url)

    def greeting(within: float) -> bytes:
        with socket.create_connection((address.hostname or "", address.port or 0), timeout=within) as client:
            try:
                return client.recv(4096)
            except TimeoutError:
                return b""

    def is_stopped() -> bool:
        """Whether all threads are: a signal is asynchronous."""
        tasks = Path(f"/proc/{cluster.pid('nats-server')}/task").glob("*/stat")
        return all(task.read_text().rsplit(")", 1)[1].split()[0] == "T" for task in tasks)

    cluster.kill("nats-server", signal.SIGSTOP)
    while not is_stopped():
        time.sleep(0.01)  # noqa: ASYNC251  the kernel has no event for it
    while_stopped = greeting(0.3)
    cluster.kill("nats-server", signal.SIGCONT)

    assert while_stopped == b""
    assert b'"jetstream":true' in greeting(60)


async def test_prometheus_reloads_its_configuration(cluster: Cluster) -> None:
    """Rules and scrape jobs; the data remain."""
    cluster.configure_prometheus(
        PrometheusConfiguration(
            scrape_interval=SCRAPE,
            rules=[{"name": "nodes", "rules": [{"record": "nodes:count", "expr": "count(scrape_error)"}]}],
        )
    )
    async with asyncio.timeout(60):
        while not (found := query(cluster, "nodes:count")):  # noqa: ASYNC110
            await asyncio.sleep(SCRAPE)

    assert found[0]["value"][1] == "2"


async def test_a_service_account_token_has_the_permissions_of_its_account(cluster: Cluster) -> None:
    """The files are as in a pod."""
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
    reviewed = await cluster.request("POST", "/apis/authentication.k8s.io/v1/selfsubjectreviews", review, token=token)
    nodes = await cluster.request("GET", "/api/v1/nodes", token=token)
    with pytest.raises(ApiError) as refused:
        await cluster.request("GET", "/api/v1/pods", token=token)

    assert reviewed["status"]["userInfo"]["username"] == "system:serviceaccount:default:binder"
    assert len(nodes["items"]) == 2
    assert refused.value.status == 403
    assert {"token", "ca.crt", "namespace"} == {path.name for path in file.parent.iterdir()}
    assert cluster.url.endswith(cluster.in_cluster_environment["KUBERNETES_SERVICE_PORT"])


async def test_manifests_of_any_kind_are_applied(cluster: Cluster) -> None:
    """Also a second time, and as a List."""
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


async def test_prometheus_may_be_built_after_the_other_components_have_started(
    testbed_binaries: Binaries, tmp_path: Path
) -> None:
    """Until then nodes are added without it; once it runs it scrapes them."""
    program = tmp_path / "prometheus"
    async with Cluster(binaries=dataclasses.replace(testbed_binaries, prometheus=program)) as later:
        await later.add_nodes([node("early")])
        program.symlink_to(testbed_binaries.prometheus)
        await asyncio.to_thread(later.restart, "prometheus")

        async with asyncio.timeout(60):
            while not query(later, 'up{node="early"} == 1'):  # noqa: ASYNC110  Prometheus has no events
                await asyncio.sleep(0.1)
        await asyncio.to_thread(later.check)


def test_the_error_of_a_failed_start_contains_the_component_and_its_log(
    testbed_binaries: Binaries, tmp_path: Path
) -> None:
    """No process remains."""
    cluster = Cluster(
        binaries=testbed_binaries,
        arguments={"etcd": ["--listen-client-urls=http://192.0.2.1:1"]},
        directory=tmp_path / "here",
    )
    with pytest.raises(ClusterError, match=r"etcd ended with code(.|\n)*192.0.2.1:1"):
        cluster.start()

    assert process_start(cluster.guard.pid) is None
