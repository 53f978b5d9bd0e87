"""The objects that the descheduler watches in a replay."""

import pytest
from lab.model.descheduling.test_simulated_descheduler import BASE, a_pod
from scheduling.pods import a_node

from equipoise.contracts.kubernetes.workload import Workload
from equipoise.contracts.messages.placement import NodePlacement
from equipoise.descheduler.state.cluster_builder import owners_by_name
from equipoise.lab.model.cluster_objects import pod_template
from equipoise.lab.model.descheduling.api_objects import ApiObjects
from equipoise.lab.model.trace import TraceWorkload
from equipoise.scheduling.model.workloads import SpreadSelectors


@pytest.mark.parametrize("kind", ["Deployment", "StatefulSet"])
def test_pods_have_the_owners_by_which_kube_scheduler_spreads_them(kind: str) -> None:
    """Those of a Deployment have a ReplicaSet, and it is still their workload."""
    workload = Workload(kind=kind, group="apps", namespace="shop", name="web")
    template = pod_template(TraceWorkload(name="web", namespace="shop", kind=kind))
    found = ApiObjects(
        replicas=lambda workload: 1,
        excluded=lambda workload: (),
        all_nodes={"node": a_node("node")},
        template=lambda uid: template.pod,
    )
    pods = [a_pod(workload, 0)]
    found.on_placement(NodePlacement(node="node", uid="node", allocatable=BASE, pods=pods, epoch=1, sequence=1))

    watched = found.watched(())

    (pod,) = watched.pods
    selector = SpreadSelectors({}, owners_by_name(watched.workloads))(watched.infos[pod.metadata.uid])
    assert selector is not None
    assert {each.key for each in selector.match_expressions} == template.labels.keys()
    assert watched.workload_of(pod) == workload
