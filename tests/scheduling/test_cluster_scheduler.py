"""A cluster in memory."""

import random
from typing import Any

import msgspec
import pytest
import yaml
from scheduling.pods import a_budget, a_node, a_pod

from equipoise.contracts.kubernetes.objects.cluster import Namespace
from equipoise.contracts.kubernetes.objects.metadata import ObjectMeta
from equipoise.contracts.kubernetes.objects.pod import ClaimSource, Pod, SchedulingGate, Volume
from equipoise.contracts.kubernetes.objects.storage import PersistentVolumeClaim
from equipoise.contracts.kubernetes.objects.workload import KubernetesService, KubernetesServiceSpec
from equipoise.scheduling import ClusterScheduler, read_configuration, read_pod
from equipoise.scheduling.cluster_scheduler import KINDS
from equipoise.scheduling.model.snapshot import ClusterSnapshot


def a_cluster(*nodes: str, cpu: str = "4") -> ClusterScheduler:
    cluster = ClusterScheduler(random.Random(1))
    for name in nodes:
        cluster.put(a_node(name, cpu=cpu))
    return cluster


def test_objects_may_come_in_any_order() -> None:
    cluster = ClusterScheduler(random.Random(1))
    cluster.put(a_pod("old", {"cpu": "3"}, node_name="a").pod)
    cluster.put(a_node("a"))

    assert "Insufficient cpu" in cluster.decide(a_pod("new", {"cpu": "2"})).message(1)


def test_finished_pods_and_pods_without_a_node_occupy_nothing() -> None:
    cluster = a_cluster("a")
    cluster.put(a_pod("done", {"cpu": "4"}, node_name="a", status={"phase": "Succeeded"}).pod)
    cluster.put(a_pod("waiting", {"cpu": "4"}).pod)

    assert cluster.decide(a_pod("new", {"cpu": "4"})).node == "a"


def test_a_changed_pod_replaces_the_one_of_its_uid() -> None:
    cluster = a_cluster("a")
    cluster.put(a_pod("old", {"cpu": "4"}, node_name="a").pod)
    cluster.put(a_pod("old", {"cpu": "1"}, node_name="a").pod)
    assert cluster.decide(a_pod("new", {"cpu": "3"})).node == "a"

    cluster.put(a_pod("old", {"cpu": "1"}, node_name="a", status={"phase": "Failed"}).pod)
    assert cluster.decide(a_pod("new", {"cpu": "4"})).node == "a"


def test_decide_changes_nothing_and_place_does() -> None:
    cluster = a_cluster("a")
    pod = a_pod("new", {"cpu": "3"})

    assert [cluster.decide(pod).node, cluster.decide(pod).node] == ["a", "a"]
    assert cluster.place(pod).node == "a"
    assert cluster.place(a_pod("next", {"cpu": "3"})).node == ""


def test_after_a_preemption_the_pod_is_nominated_and_runs_there_next() -> None:
    cluster = a_cluster("a", "b")
    for name in ("a", "b"):
        cluster.place(a_pod(f"low-{name}", {"cpu": "4"}))
    important = a_pod("important", {"cpu": "4"}, priority=10)

    decision = cluster.place(important)

    assert decision.preemption is not None
    node = decision.preemption.node
    assert [victim.name for victim in decision.preemption.victims] == [f"low-{node}"]
    assert cluster.place(a_pod("also-low", {"cpu": "4"})).node == "", "room is left for the nominated pod"
    assert cluster.place(important).node == node
    assert not cluster.nominated


def test_budgets_of_the_cluster_decide_between_victims() -> None:
    cluster = a_cluster("a", "b")
    cluster.put(a_budget(0, app="protected"))
    cluster.put(a_pod("protected", {"cpu": "4"}, labels={"app": "protected"}, node_name="a").pod)
    cluster.put(a_pod("other", {"cpu": "4"}, node_name="b").pod)

    decision = cluster.decide(a_pod("important", {"cpu": "4"}, priority=10))

    assert decision.preemption is not None
    assert [victim.name for victim in decision.preemption.victims] == ["other"]


def test_pods_of_a_workload_are_spread_by_its_selector() -> None:
    """Although they have no constraints: by the defaults of PodTopologySpread."""
    cluster = a_cluster("a", "b", cpu="400")
    owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": "1", "controller": True}
    selector = {"matchLabels": {"app": "web"}}
    cluster.put_documents(
        [{"kind": "ReplicaSet", "metadata": {"name": "web", "namespace": "default"}, "spec": {"selector": selector}}]
    )
    metadata = {"namespace": "default", "labels": {"app": "web"}, "ownerReferences": [owner]}

    placed = [cluster.place(read_pod({"metadata": metadata | {"name": f"web-{n}"}, "spec": {}})).node for n in range(4)]

    assert sorted(placed) == ["a", "a", "b", "b"]


def test_a_pod_of_another_scheduler_is_refused() -> None:
    with pytest.raises(KeyError, match="other"):
        a_cluster("a").decide(a_pod(scheduler_name="other"))


def test_a_list_of_one_kind_is_read_as_the_api_server_returns_it() -> None:
    """Its items have no kind."""
    cluster = ClusterScheduler(random.Random(1))
    status = {"allocatable": {"cpu": "1", "memory": "1Gi", "pods": "10"}}
    cluster.put_documents([{"kind": "NodeList", "items": [{"metadata": {"name": "a"}, "status": status}]}])

    assert cluster.decide(a_pod()).node == "a"


def on_node(pod: Pod, node: str) -> Pod:
    return msgspec.structs.replace(pod, spec=msgspec.structs.replace(pod.spec, node_name=node))


def test_a_pod_that_is_removed_makes_room() -> None:
    cluster, running = a_cluster(), on_node(a_pod("running", {"cpu": "3"}).pod, "node-1")
    cluster.put(a_node("node-1", cpu="4"))
    cluster.put(running)
    assert cluster.decide(a_pod("next", {"cpu": "3"})).node == ""

    cluster.remove(running)
    cluster.remove(running)
    assert cluster.decide(a_pod("next", {"cpu": "3"})).node == "node-1"


def test_a_node_that_returns_still_has_its_pods() -> None:
    cluster, node = a_cluster(), a_node("node-1", cpu="4")
    cluster.put(node)
    cluster.put(on_node(a_pod("running", {"cpu": "3"}).pod, "node-1"))
    cluster.remove(node)
    assert cluster.decide(a_pod("next", {"cpu": "1"})).node == ""

    cluster.put(node)
    assert cluster.decide(a_pod("next", {"cpu": "3"})).node == ""
    assert cluster.decide(a_pod("next", {"cpu": "1"})).node == "node-1"


def test_objects_of_every_kind_can_be_removed() -> None:
    """Also those that are not there."""
    cluster = a_cluster()
    for kind, model in KINDS.items():
        values: dict[str, Any] = {"kind": kind, "metadata": ObjectMeta(name="one", namespace="shop")}
        item = model(**values)
        cluster.remove(item)
        cluster.put(item)
        cluster.remove(item)
    cluster.put(Namespace(metadata=ObjectMeta(name="kept")))

    assert list(cluster.snapshot.namespaces) == ["kept"]
    assert len(cluster.snapshot.rows) == 0
    assert cluster.budgets == {}


def test_a_claim_that_was_removed_is_not_found() -> None:
    """Its manifest has no namespace: it is one of the default namespace."""
    volume = Volume(name="data", persistent_volume_claim=ClaimSource(claim_name="data"))
    pod, claim = a_pod(volumes=[volume]), PersistentVolumeClaim(metadata=ObjectMeta(name="data"))
    missing = 'persistentvolumeclaim "data" not found'
    cluster = a_cluster("a")
    cluster.put(claim)
    assert missing not in cluster.decide(pod).message(1)

    cluster.remove(claim)
    assert missing in cluster.decide(pod).message(1)


def test_a_service_that_was_removed_spreads_nothing() -> None:
    """It is an item of a list, which has no kind."""
    metadata = ObjectMeta(name="web", namespace="default")
    service = KubernetesService(metadata=metadata, spec=KubernetesServiceSpec(selector={"app": "web"}))

    cluster = a_cluster("a", "b")
    cluster.put(service)
    assert "PodTopologySpread" in plugins_that_score(cluster)

    cluster.remove(service)
    assert "PodTopologySpread" not in plugins_that_score(cluster)


def plugins_that_score(cluster: ClusterScheduler) -> set[str]:
    """A pod of the app web."""
    decision = cluster.decide(a_pod("web", labels={"app": "web"}))
    assert decision.scores is not None
    return set(decision.scores.weighted)


def test_a_pod_with_scheduling_gates_is_on_no_node() -> None:
    decision = a_cluster("a").decide(a_pod(scheduling_gates=[SchedulingGate(name="wait")]))

    assert (decision.node, decision.message(1)) == ("", "waiting for scheduling gates: [wait]")


def test_pods_that_are_nominated_count_until_they_are_not() -> None:
    """As a list of all pods has them while their victims terminate."""
    cluster = a_cluster("a")
    pod = a_pod("first", {"cpu": "3"}, status={"nominated_node_name": "a"})
    cluster.put(pod.pod)
    assert "Insufficient cpu" in cluster.decide(a_pod("new", {"cpu": "2"})).message(1)
    assert cluster.decide(a_pod("more-important", {"cpu": "2"}, priority=1)).node == "a"

    cluster.put(a_pod("first", {"cpu": "3"}).pod)
    assert cluster.decide(a_pod("new", {"cpu": "2"})).node == "a"

    cluster.put(pod.pod)
    cluster.remove(pod.pod)
    assert cluster.decide(a_pod("new", {"cpu": "2"})).node == "a"


def test_lists_that_are_null_are_read() -> None:
    """As the API server writes them."""
    cluster = a_cluster()
    status = {"allocatable": {"cpu": "1", "pods": "1"}, "images": [{"names": None, "sizeBytes": 5}]}
    cluster.put_documents(
        [
            {"kind": "CSINode", "metadata": {"name": "a"}, "spec": {"drivers": None}},
            {"kind": "Node", "metadata": {"name": "a"}, "status": status},
        ]
    )

    assert cluster.decide(a_pod()).node == "a"


def test_without_all_claims_of_a_pod_preemption_is_not_tried() -> None:
    """DynamicResources misses what its PreFilter would have written, and ends PostFilter."""
    claim = Volume(name="data", persistent_volume_claim=ClaimSource(claim_name="none"))
    decision = a_cluster("a").decide(a_pod(volumes=[claim]))

    message = '0/1 nodes are available: persistentvolumeclaim "none" not found. not found'
    assert decision.message(1) == message
    assert decision.preemption is not None
    assert not decision.preemption.clear_nomination


def resized(cpu: str, *, infeasible: bool = False) -> dict[str, Any]:
    """A pod that requested 2 cores, and whose container has got `cpu`."""
    conditions = [{"type": "PodResizePending", "status": "True", "reason": "Infeasible"}] if infeasible else []
    status = {"name": "main", "resources": {"requests": {"cpu": cpu}}, "allocatedResources": {"cpu": cpu}}
    return {
        "kind": "Pod",
        "metadata": {"name": "old"},
        "spec": {
            "nodeName": "a",
            "containers": [{"name": "main", "resources": {"requests": {"cpu": "2"}}}],
        },
        "status": {"conditions": conditions, "containerStatuses": [status]},
    }


@pytest.mark.parametrize(
    ("pod", "fits"), [(resized("3"), "1"), (resized("1"), "2"), (resized("1", infeasible=True), "3")]
)
def test_a_node_accounts_for_the_highest_of_what_a_resized_pod_requests_and_has(pod: dict[str, Any], fits: str) -> None:
    cluster = a_cluster("a", cpu="4")
    cluster.put_documents([pod])

    assert cluster.decide(a_pod("new", {"cpu": fits})).node == "a"
    assert not cluster.decide(a_pod("new", {"cpu": f"{int(fits) * 1000 + 1}m"})).node


def test_sidecars_and_requests_at_pod_level_are_resized_too() -> None:
    cluster = a_cluster("a", cpu="4")
    status = {"name": "sidecar", "resources": {"requests": {"cpu": "3"}}}
    sidecar = {"name": "sidecar", "restartPolicy": "Always", "resources": {"requests": {"cpu": "1"}}}
    spec = {"nodeName": "a", "containers": [{"name": "main"}], "initContainers": [sidecar]}
    pod = {"kind": "Pod", "metadata": {"name": "old"}, "spec": spec, "status": {"initContainerStatuses": [status]}}
    cluster.put_documents([pod])
    assert not cluster.decide(a_pod("new", {"cpu": "2"})).node

    spec = {"nodeName": "a", "containers": [{"name": "main"}], "resources": {"requests": {"cpu": "1"}}}
    cluster.put_documents([pod | {"spec": spec, "status": {"resources": {"requests": {"cpu": "3"}}}}])
    assert not cluster.decide(a_pod("new", {"cpu": "2"})).node


def test_requests_at_pod_level_replace_assumptions_for_what_containers_request() -> None:
    """As getNonMissingContainerRequests: a container requests 0 cores, so none are assumed for the other one."""
    containers = [{"name": "one", "resources": {"requests": {"cpu": "0"}}}, {"name": "two"}]
    resources = {"requests": {"memory": "1Gi"}}

    assert read_pod({"spec": {"containers": containers, "resources": resources}}).assumed_cpu == 0
    assert read_pod({"spec": {"containers": containers}}).assumed_cpu == 100


def test_a_quantity_beyond_64_bits_is_the_highest_one() -> None:
    node = a_node("a", memory="16Ei")

    assert ClusterSnapshot([node]).allocatable[1].tolist() == [2**63 - 1]


def test_the_selector_of_a_workload_does_not_replace_that_of_a_service() -> None:
    """Together they select nothing, so nothing is spread."""
    cluster = ClusterScheduler(random.Random(1))
    owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "owner", "controller": True}
    pod = {
        "metadata": {"name": "new", "labels": {"app": "web"}, "ownerReferences": [owner]},
        "spec": {"containers": []},
    }
    cluster.put_documents(
        [
            {"kind": "Node", "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name}}} | SIZE
            for name in "ab"
        ]
    )
    cluster.put_documents(
        [
            {
                "kind": "Service",
                "metadata": {"name": "s", "namespace": "default"},
                "spec": {"selector": {"app": "web"}},
            },
            {
                "kind": "ReplicaSet",
                "metadata": {"name": "owner", "namespace": "default"},
                "spec": {"selector": {"matchLabels": {"app": "other"}}},
            },
            {"kind": "Pod", "metadata": {"name": "old", "labels": {"app": "other"}}, "spec": {"nodeName": "a"}},
        ]
    )

    scores = cluster.decide(read_pod(pod)).scores

    assert scores is not None
    assert scores.weighted["PodTopologySpread"].tolist() == [200, 200]


SIZE = {"status": {"allocatable": {"cpu": "4", "memory": "8Gi", "pods": "110"}}}


def test_all_profiles_search_nodes_in_turn() -> None:
    head = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}
    plugins = {"score": {"disabled": [{"name": "*"}]}}
    profiles = [{"schedulerName": name, "plugins": plugins} for name in ("one", "two")]
    cluster = ClusterScheduler(random.Random(1), read_configuration({**head, "profiles": profiles}))
    for name in "ab":
        cluster.put(a_node(name))

    assert [cluster.decide(a_pod(scheduler_name=name)).node for name in ("one", "two", "two")] == ["a", "b", "a"]


MANIFEST = """
apiVersion: v1
kind: Pod
metadata: {name: p, namespace: d, labels: null, creationTimestamp: null}
spec:
  initContainers: null
  tolerations: null
  affinity: {nodeAffinity: null}
  nodeSelector: {disk: null}
  overhead: {cpu: 1e-1}
  volumes: null
  containers:
  - name: c
    ports: null
    resources: {requests: {cpu: 0.6, example.com/tpu: 1, memory: null}, limits: {example.com/tpu: 1}}
status: null
"""

NODE = """
kind: Node
metadata: {name: n, labels: {disk: ""}, annotations: null}
spec: {taints: null, unschedulable: null}
status: {allocatable: {cpu: 4, memory: 1.5e9, pods: 110, example.com/tpu: 2}, images: null, conditions: null}
"""


def test_a_manifest_is_read_as_the_api_server_accepts_it() -> None:
    """Numbers as quantities, and null for absent, for an empty text and for 0."""
    pod = read_pod(yaml.safe_load(MANIFEST))
    assert pod.requests == {"cpu": 700, "example.com/tpu": 1, "memory": 0}
    cluster = ClusterScheduler(random.Random(1))
    cluster.put_documents([None, yaml.safe_load(NODE), {"kind": "List", "items": None}, {"kind": None}])  # type: ignore[list-item]
    assert cluster.decide(pod).node == "n"
    cluster.put_documents([{"kind": "PodList", "items": [yaml.safe_load(MANIFEST), None]}])


@pytest.mark.parametrize(
    "spec",
    [
        {"containers": [{"resources": {"requests": {"cpu": True}}}]},
        {"containers": [{"resources": {"requests": {"cpu": [1]}}}]},
        {"containers": 5},
        {"nodeName": 5},
    ],
)
def test_what_the_api_server_refuses_is_an_error(spec: dict[str, Any]) -> None:
    with pytest.raises((msgspec.ValidationError, ValueError)):
        read_pod({"metadata": {"name": "p"}, "spec": spec})
