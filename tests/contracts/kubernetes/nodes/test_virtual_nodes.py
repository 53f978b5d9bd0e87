"""Which nodes have no machine."""

import pytest

from equipoise.contracts.kubernetes.nodes.virtual_nodes import virtual_node
from equipoise.contracts.kubernetes.objects.node import Taint


@pytest.mark.parametrize(
    ("labels", "taints", "expected"),
    [
        ({"type": "virtual-kubelet"}, [], "virtual-kubelet"),
        ({}, [Taint(key="virtual-kubelet.io/provider", value="azure", effect="NoSchedule")], "virtual-kubelet"),
        ({"eks.amazonaws.com/compute-type": "fargate"}, [], "AWS Fargate"),
        ({}, [Taint(key="eks.amazonaws.com/compute-type", value="fargate")], "AWS Fargate"),
        ({"liqo.io/type": "virtual-node"}, [], "Liqo"),
        ({}, [Taint(key="virtual-node.liqo.io/not-allowed", value="true", effect="NoExecute")], "Liqo"),
        ({"type": "kwok"}, [], "KWOK"),
        ({}, [Taint(key="kwok.x-k8s.io/node", value="fake", effect="NoSchedule")], "KWOK"),
        ({"kwok.x-k8s.io/node": "fake"}, [], "KWOK"),
        ({"virtual-kubelet.io/provider": "admiralty"}, [], "virtual-kubelet"),
        ({"virtual-node.interlink/type": "virtual-kubelet"}, [], "interLink"),
        ({"node-role.kubernetes.io/virtual-node": ""}, [], "virtual-kubelet"),
        ({"node.kubernetes.io/instance-type": "eklet"}, [], "Tencent EKS"),
    ],
)
def test_a_virtual_node_is_known_by_what_made_it(labels: dict[str, str], taints: list[Taint], expected: str) -> None:
    """A label or a taint identifies it."""
    assert f"virtual node ({expected})" == virtual_node(labels, taints)


@pytest.mark.parametrize(
    ("labels", "taints"),
    [
        ({}, []),
        ({"type": "large", "kubernetes.io/os": "linux"}, [Taint(key="dedicated", value="virtual-kubelet")]),
        ({"eks.amazonaws.com/compute-type": "auto"}, [Taint(key="eks.amazonaws.com/compute-type", value="ec2")]),
        ({"node.kubernetes.io/instance-type": "m5.large"}, []),
    ],
)
def test_other_nodes_have_a_machine(labels: dict[str, str], taints: list[Taint]) -> None:
    """Their missing data is a fault."""
    assert not virtual_node(labels, taints)
