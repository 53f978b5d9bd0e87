"""Virtual nodes: objects of the API server that represent capacity elsewhere and have no machine.

Their pods run as machines of their own (AWS Fargate, Azure Container Instances), in another cluster (Liqo), or not at
all (KWOK). No DaemonSet runs there, so node-exporter and kubelet have no series of them.
"""

from collections.abc import Iterable, Mapping

from equipoise.contracts.kubernetes.objects.node import Taint

LABELS: Mapping[tuple[str, str], str] = {
    ("type", "virtual-kubelet"): "virtual-kubelet",
    ("type", "kwok"): "KWOK",
    ("eks.amazonaws.com/compute-type", "fargate"): "AWS Fargate",
    ("liqo.io/type", "virtual-node"): "Liqo",
    ("alibabacloud.com/virtual-node", "true"): "virtual-kubelet",
    ("node.kubernetes.io/instance-type", "eklet"): "Tencent EKS",
}
"""The software that created the node, by the key and value of a label."""

KEYS: Mapping[str, str] = {
    "virtual-kubelet.io/provider": "virtual-kubelet",
    "azure.com/aci": "virtual-kubelet",
    "kwok.x-k8s.io/node": "KWOK",
    "virtual-node.liqo.io/not-allowed": "Liqo",
    "virtual-node.interlink/no-schedule": "interLink",
    "virtual-node.interlink/type": "interLink",
    "eks.tke.cloud.tencent.com/eklet": "Tencent EKS",
}
"""The software that created the node, by the key of a taint or a label. Users may disable the taint."""

ROLE = "node-role.kubernetes.io/virtual"
"""Oracle's virtual nodes have the role `virtual-node`, others `virtual-kubelet`."""


def virtual_node(labels: Mapping[str, str], taints: Iterable[Taint]) -> str:
    """The reason why a virtual node is neither measured nor a target: `virtual node (AWS Fargate)`. Empty for
    others."""
    pairs = [*labels.items(), *((taint.key, taint.value) for taint in taints)]
    made_by = [LABELS[pair] for pair in pairs if pair in LABELS]
    made_by += [KEYS[key] for key, _ in pairs if key in KEYS]
    made_by += ["virtual-kubelet" for label in labels if label.startswith(ROLE)]
    return f"virtual node ({made_by[0]})" if made_by else ""
