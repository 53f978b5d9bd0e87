"""The node, and the node selectors of pods and volumes."""

from equipoise.contracts.kubernetes.objects.metadata import ApiValue, Condition, Int64, Object, SelectorRequirement


class Taint(ApiValue, frozen=True, kw_only=True):
    key: str
    value: str = ""
    effect: str = ""


class NodeSpec(ApiValue, frozen=True, kw_only=True):
    unschedulable: bool = False
    taints: list[Taint] = []


class ContainerImage(ApiValue, frozen=True, kw_only=True):
    """An image that a node has."""

    names: list[str] | None = None
    """The API server writes null if an image has no names."""

    size_bytes: Int64 = 0


class NodeAddress(ApiValue, frozen=True, kw_only=True):
    type: str = ""
    address: str = ""


class NodeStatus(ApiValue, frozen=True, kw_only=True):
    allocatable: dict[str, str] = {}
    capacity: dict[str, str] = {}
    conditions: list[Condition] = []
    addresses: list[NodeAddress] = []
    images: list[ContainerImage] = []


class Node(Object, frozen=True, kw_only=True):
    spec: NodeSpec = NodeSpec()
    status: NodeStatus = NodeStatus()


class NodeSelectorTerm(ApiValue, frozen=True, kw_only=True):
    match_expressions: list[SelectorRequirement] = []
    match_fields: list[SelectorRequirement] = []


class NodeSelector(ApiValue, frozen=True, kw_only=True):
    node_selector_terms: list[NodeSelectorTerm] = []
