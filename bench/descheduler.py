"""How long one evaluation of the descheduler takes in a big fleet, and what the fleet weighs."""

import argparse
import gc
import random
import resource
import time
from datetime import UTC, datetime

from equipoise.contracts import objects
from equipoise.contracts.fit import fit_pod
from equipoise.contracts.messages import NodeUtilization, Resources, WindowUsage
from equipoise.contracts.protection import Rules
from equipoise.contracts.settings import LoadSettings, Namespaces, Protection, Thresholds
from equipoise.contracts.workload import Workload
from equipoise.descheduler.fleet import Fleet, IntentLimits
from equipoise.descheduler.measures import Measures
from equipoise.descheduler.picture import Picture, Remembered, Watched
from equipoise.descheduler.stays import PodStays
from equipoise.descheduler.strategies.low_node_load import LowNodeLoad
from equipoise.runtime.sharing import Sharing

GIB = 2.0**30
NOW = 1_800_000_000.0
LONG_AGO = datetime.fromtimestamp(NOW - 200_000, UTC)
LOAD = LoadSettings()
REPLICAS = 20


def a_node(name: str) -> objects.Node:
    return objects.Node(
        metadata=objects.ObjectMeta(
            name=name, uid=name, creation_timestamp=LONG_AGO, labels={"kubernetes.io/hostname": name}
        ),
        status=objects.NodeStatus(
            allocatable={"cpu": "32", "memory": "128Gi", "pods": "110"},
            conditions=[objects.Condition(type="Ready", status="True", last_transition_time=LONG_AGO)],
        ),
    )


def a_pod(name: str, node: str, app: str) -> objects.Pod:
    owner = objects.OwnerReference(api_version="apps/v1", kind="ReplicaSet", name=f"{app}-1", controller=True)
    container = objects.Container(resources=objects.ResourceRequirements(requests={"cpu": "500m", "memory": "1Gi"}))
    rule = objects.TopologySpreadConstraint(
        topology_key="kubernetes.io/hostname",
        label_selector=objects.LabelSelector(match_labels={"app": app}),
        max_skew=5,
    )
    return objects.Pod(
        metadata=objects.ObjectMeta(
            name=name, namespace="shop", uid=name, labels={"app": app}, owner_references=[owner],
            creation_timestamp=LONG_AGO,
        ),
        spec=objects.PodSpec(node_name=node, containers=[container], topology_spread_constraints=[rule]),
        status=objects.PodStatus(
            phase="Running",
            conditions=[objects.Condition(type="Ready", status="True", last_transition_time=LONG_AGO)],
            start_time=LONG_AGO,
        ),
    )  # fmt: skip


def a_workload(kind: str, name: str, owner: str = "") -> tuple[Workload, objects.WorkloadObject]:
    controller = objects.OwnerReference(api_version="apps/v1", kind="Deployment", name=owner, controller=True)
    counts = objects.WorkloadStatus(replicas=REPLICAS, ready_replicas=REPLICAS, updated_replicas=REPLICAS)
    value = objects.WorkloadObject(
        metadata=objects.ObjectMeta(name=name, namespace="shop", owner_references=[controller] if owner else []),
        spec=objects.WorkloadSpec(replicas=REPLICAS),
        status=counts,
    )
    return Workload(kind=kind, group="apps", namespace="shop", name=name), value


def a_cluster(nodes: int, pods: int, chance: random.Random) -> tuple[Watched, dict[str, NodeUtilization], PodStays]:
    sharing, apps, stays = Sharing(), max(1, nodes * pods // REPLICAS), PodStays()
    names = [f"node-{number:05}" for number in range(nodes)]
    placed = [
        sharing.shared(a_pod(f"{name}-{number}", name, f"app-{chance.randrange(apps)}"))
        for name in names
        for number in range(pods)
    ]
    for pod in placed:
        stays.changed(None, pod, usage=Resources(), now=NOW)
    heard = {}
    for name in names:
        cores = chance.uniform(4, 30)
        mean = WindowUsage(sampled_at=NOW, mean=Resources(cpu=cores, memory=chance.uniform(10, 90) * GIB))
        heard[name] = NodeUtilization(
            node=name, uid=name, base=Resources(cpu=32, memory=128 * GIB), sampled_at=NOW, queried_at=NOW,
            windows={window.name: mean for window in LOAD.windows}, epoch=1, sequence=1,
            pods={f"{name}-{number}": Resources(cpu=cores / pods, memory=GIB) for number in range(pods)},
        )  # fmt: skip
    owners = [a_workload("Deployment", f"app-{number}") for number in range(apps)]
    owners += [a_workload("ReplicaSet", f"app-{number}-1", f"app-{number}") for number in range(apps)]
    watched = Watched(
        nodes=[a_node(name) for name in names],
        pods=placed,
        namespaces={"shop": objects.Namespace(metadata=objects.ObjectMeta(name="shop"))},
        workloads=dict(owners),
        fits={pod.metadata.uid: fit_pod(pod) for pod in placed},
    )
    return watched, heard, stays


def evaluate(watched: Watched, heard: dict[str, NodeUtilization], stays: PodStays) -> tuple[float, float, int]:
    """CPU seconds of the picture and of the plan, and how many pods the plan moves."""
    begun = time.process_time()
    measures = Measures(nodes=heard, workloads={}, stays=stays, settings=LOAD, skew=0.0)
    rules = Rules(protection=Protection(), namespaces=Namespaces(), own_namespace="equipoise-system")
    picture = Picture(watched, measures, Remembered(), rules, now=NOW)
    fleet = Fleet(
        now=NOW,
        nodes=picture.nodes(settling=LOAD.coverage.node_settling),
        thresholds=Thresholds(),
        windows=[window.name for window in LOAD.windows],
        limits=IntentLimits(per_evaluation=20, per_node=2, per_workload=1),
    )
    seen = time.process_time()
    strategy = LowNodeLoad()
    abnormal = {verdict.node for verdict in strategy.verdicts(fleet) if verdict.state == "hot"}
    plan = strategy.plan(fleet, abnormal)
    return seen - begun, time.process_time() - seen, len(plan.moves)


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--nodes", type=int, nargs="*", default=[1_000, 5_000])
    arguments.add_argument("--pods", type=int, default=30)
    given = arguments.parse_args()
    for nodes in given.nodes:
        cluster = a_cluster(nodes, given.pods, random.Random(1))
        gc.collect()
        first, again = evaluate(*cluster), evaluate(*cluster)
        for name, (picture, plan, moves) in (("first", first), ("again", again)):
            print(
                f"{nodes} nodes with {given.pods} pods, {name}: "
                f"picture {picture:.2f} s, plan {plan:.2f} s, {moves} moves"
            )
        print(f"  at most {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024:.0f} MiB so far")


if __name__ == "__main__":
    main()
