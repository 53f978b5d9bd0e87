"""The nodes of a cluster and the pods on them, as arrays with one column per node.

The scheduler changes it between two attempts (`put_node`, `add_pod`, …). During an attempt nothing changes it: what
would happen after other placements is tried in a `clone`.
"""

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence

import numpy as np
import numpy.typing as npt

from equipoise.contracts.kubernetes.nodes.taints import BLOCKING_EFFECTS, tolerates
from equipoise.contracts.kubernetes.objects.cluster import Namespace
from equipoise.contracts.kubernetes.objects.node import Node, Taint
from equipoise.contracts.kubernetes.objects.pod import Toleration
from equipoise.scheduling.model.amounts import CPU, EXACT, MEMORY, PODS, STORAGE, allocatable
from equipoise.scheduling.model.arrays import Flags, Ints, Rows
from equipoise.scheduling.model.node_images import NodeImages
from equipoise.scheduling.model.node_labels import NodeLabels
from equipoise.scheduling.model.node_order import NodeOrder
from equipoise.scheduling.model.pod_groups import SimilarPodsIndex
from equipoise.scheduling.model.pod_info import GroupKey, PodHostPort, PodInfo, PodShape
from equipoise.scheduling.model.quantities import wrapped

Taints = tuple[Taint, ...]

_SPARE = 8
"""Columns that are added at a time."""


class ClusterSnapshot:
    """A node has the same row as long as it exists. A row without a node is free, and is in no result."""

    def __init__(self, nodes: Iterable[Node] = (), pods: Iterable[PodInfo] = (), *, size: int = 0) -> None:
        """`pods` without a node of the cluster are left out. `size`: expected number of nodes."""
        nodes = list(nodes)
        columns = max(len(nodes), size)
        self.resources: dict[str, int] = {CPU: 0, MEMORY: 1, STORAGE: 2, PODS: 3}
        """Index in `allocatable` and `requested` by name. These four never change."""

        self.allocatable: Ints = np.zeros((len(self.resources), columns), dtype=np.int64)
        """resources × nodes: millicores of cpu, the base unit of others."""

        self.requested: Ints = np.zeros_like(self.allocatable)
        """resources × nodes: requests of its pods."""

        self.assumed: Ints = np.zeros((2, columns), dtype=np.int64)
        """(cpu, memory) × nodes: as `requested`, with assumptions for containers that request none."""

        self.nodes: list[Node | None] = [None] * columns
        self.labels = NodeLabels(self.nodes)
        self.images = NodeImages(self.nodes)
        self.groups = SimilarPodsIndex()
        self.namespaces: dict[str, Mapping[str, str]] = {}
        """The labels of each namespace, by name."""

        self._priorities: Counter[int] = Counter()
        """Number of pods by priority."""

        self._pods: list[dict[str, PodInfo]] = [{} for _ in range(columns)]
        self._owned: set[int] | None = None
        """Rows of `_pods` that are no longer shared with the original; None: all."""

        self._row_by_name: dict[str, int] = {}
        self._order = NodeOrder()
        self._free = list(range(columns - 1, -1, -1))
        self._rows: Rows | None = None
        self._names: npt.NDArray[np.object_] | None = None
        self._usual_sizes: bool | None = None
        self._cordoned: list[Flags | None] = []
        """Empty: not computed yet."""

        self._taints: tuple[list[Taints], Rows] | None = None
        self._untolerated: dict[tuple[Toleration, ...], Flags | None] = {}
        self._untolerated_preferences: dict[tuple[Toleration, ...], Ints | None] = {}
        for node in nodes:
            self.put_node(node)
        for pod in pods:
            if (row := self._row_by_name.get(pod.pod.spec.node_name)) is not None:
                self.add_pod(pod, row)

    # Read

    @property
    def columns(self) -> int:
        """Length of all arrays: nodes and free rows."""
        return len(self.nodes)

    @property
    def rows(self) -> Rows:
        """The rows of all nodes, in the order in which they are searched."""
        if self._rows is None:
            self._rows = np.fromiter(self._order.rows(), np.intp, len(self._row_by_name))
        return self._rows

    def row(self, name: str) -> int | None:
        return self._row_by_name.get(name)

    def name(self, row: int) -> str:
        """Raises KeyError for a free row."""
        return self.node(row).metadata.name

    def names(self, rows: Rows) -> list[str]:
        """The names of these nodes."""
        if self._names is None:
            self._names = np.array([None if node is None else node.metadata.name for node in self.nodes], dtype=object)
        found: list[str] = self._names[rows].tolist()
        return found

    def node(self, row: int) -> Node:
        """Raises KeyError for a free row."""
        node = self.nodes[row]
        if node is None:
            raise KeyError(row)
        return node

    def pods_on(self, row: int) -> Iterator[PodInfo]:
        return iter(self._pods[row].values())

    def pod(self, uid: str, row: int) -> PodInfo | None:
        return self._pods[row].get(uid)

    def has_pod(self, pod: PodInfo, row: int) -> bool:
        return pod.uid in self._pods[row]

    @property
    def lowest_priority(self) -> float:
        """The lowest priority of all pods on nodes; infinite without any."""
        return min(self._priorities, default=math.inf)

    def resource(self, array: Ints, name: str) -> Ints | int:
        """The row of `allocatable` or `requested` with this resource; 0 if no node and no pod has it."""
        index = self.resources.get(name)
        return 0 if index is None else array[index]

    @property
    def usual_sizes(self) -> bool:
        """Every node has cpu and memory, and neither is above EXACT."""
        if self._usual_sizes is None:
            sizes = self.allocatable[:2, self.rows]
            self._usual_sizes = bool(((sizes > 0) & (sizes <= EXACT)).all())
        return self._usual_sizes

    def ports_on(self, row: int) -> Iterator[PodHostPort]:
        """The host ports that the pods of the node occupy."""
        return (port for pod in self._pods[row].values() for port in pod.host_ports)

    @property
    def cordoned(self) -> Flags | None:
        """Whether each node is cordoned; None: no node is."""
        if not self._cordoned:
            each = [node is not None and node.spec.unschedulable for node in self.nodes]
            self._cordoned.append(np.array(each, dtype=np.bool_) if any(each) else None)
        return self._cordoned[0]

    @property
    def taints(self) -> tuple[Sequence[Taints], Rows]:
        """Each set of taints once, and the index of each node's set."""
        if self._taints is None:
            index: dict[Taints, int] = {(): 0}
            each = [() if node is None else tuple(node.spec.taints) for node in self.nodes]
            codes = np.array([index.setdefault(taints, len(index)) for taints in each], dtype=np.intp)
            self._taints = (list(index), codes)
        return self._taints

    def untolerated(self, tolerations: Sequence[Toleration]) -> Flags | None:
        """Whether each node has a NoSchedule or NoExecute taint that none of them tolerates. Must not be changed.

        None: no node has one.
        """
        key = tuple(tolerations)
        if key not in self._untolerated:
            counts = self._count_untolerated(tolerations, BLOCKING_EFFECTS)
            self._untolerated[key] = None if counts is None else counts > 0
        return self._untolerated[key]

    def untolerated_preferences(self, tolerations: Sequence[Toleration]) -> Ints | None:
        """The number of PreferNoSchedule taints of each node that none of them tolerates. Must not be changed.

        None: no node has one.
        """
        key = tuple(tolerations)
        if key not in self._untolerated_preferences:
            self._untolerated_preferences[key] = self._count_untolerated(tolerations, ("PreferNoSchedule",))
        return self._untolerated_preferences[key]

    def _count_untolerated(self, tolerations: Sequence[Toleration], effects: Sequence[str]) -> Ints | None:
        """The number of taints of each node with one of the effects that none tolerates. None: no node has one."""
        groups, codes = self.taints
        counts = [
            sum(each.effect in effects and not tolerates(tolerations, each) for each in group) for group in groups
        ]
        return np.array(counts, dtype=np.int64)[codes] if any(counts) else None

    # Change

    def put_node(self, node: Node) -> int:
        """Adds a node, or replaces the node of this name; its pods stay. Raises ValueError for an invalid quantity."""
        amounts = allocatable(node)
        name = node.metadata.name
        row = self._row_by_name.get(name)
        if row is None:
            row = self._free_row()
            self._row_by_name[name] = row
            self._rows = self._names = None
        before = self.nodes[row]
        self.nodes[row] = node
        if self._order.changed(row, before, node):
            self._rows = None
        self.images.changed(row, before, node)
        for resource in amounts:
            self._index(resource)
        for resource, index in self.resources.items():
            self.allocatable[index, row] = amounts.get(resource, 0)
        self._usual_sizes = None
        if before is None or _cached_parts(before) != _cached_parts(node):
            self._forget_results()
        return row

    def remove_node(self, name: str) -> None:
        """Removes a node with its pods. Raises KeyError if there is none."""
        row = self._row_by_name[name]
        for pod in list(self.pods_on(row)):
            self.remove_pod(pod, row)
        del self._row_by_name[name]
        self._free.append(row)
        self.images.changed(row, self.nodes[row], None)
        self._order.changed(row, self.nodes[row], None)
        self.nodes[row] = None
        self.allocatable[:, row] = self.requested[:, row] = 0
        self._rows = self._names = self._usual_sizes = None
        self._forget_results()

    def put_namespace(self, namespace: Namespace) -> None:
        self.namespaces[namespace.metadata.name] = namespace.metadata.labels

    def add_pod(self, pod: PodInfo, row: int) -> None:
        """Adds a pod to a node, even if it does not fit. Raises ValueError if the node already has it."""
        pods = self._writable(row)
        if pod.uid in pods:
            raise ValueError(f"{pod!r} is on node {self.name(row)} already")
        pods[pod.uid] = pod
        self._count(pod, row, 1)
        self.groups.add(pod, row)

    def add_pods(self, pods: Iterable[tuple[int, Sequence[PodInfo]]]) -> None:
        """Adds the pods of several nodes, each given with its row: the same as `add_pod` for each pod, in a tenth of
        the time."""
        index: dict[PodShape, int] = {}
        examples: list[PodInfo] = []
        rows, shapes = list[int](), list[int]()
        by_row = [(row, added, {pod.uid: pod for pod in added}) for row, added in pods]
        for row, added, by_uid in by_row:
            if len(by_uid) != len(added) or not self._pods[row].keys().isdisjoint(by_uid):
                raise ValueError(f"a pod is on node {self.name(row)} already")
        for row, added, by_uid in by_row:
            self._writable(row).update(by_uid)
            self._priorities.update(pod.priority for pod in added)
            for pod in added:
                number = index.setdefault(pod.shape, len(index))
                if number == len(examples):
                    examples.append(pod)
                shapes.append(number)
            rows += [row] * len(added)
        self._count_all(examples, np.array(rows, dtype=np.intp), np.array(shapes, dtype=np.intp))

    def _count_all(self, examples: Sequence[PodInfo], rows: Rows, shapes: Rows) -> None:
        """`rows`: the row of each pod's node. `shapes`: the index in `examples` of a pod with the same shape, for each
        pod."""
        for resource in dict.fromkeys(name for pod in examples for name in pod.requests):
            amounts = np.array([pod.requests.get(resource, 0) for pod in examples], dtype=np.int64)
            place = self._index(resource)  # may replace the array
            np.add.at(self.requested[place], rows, amounts[shapes])
        np.add.at(self.requested[3], rows, 1)
        assumed = np.array([(pod.assumed_cpu, pod.assumed_memory) for pod in examples], dtype=np.int64).reshape(-1, 2)
        for place in (0, 1):
            np.add.at(self.assumed[place], rows, assumed[shapes, place])
        groups: dict[GroupKey, PodInfo] = {}
        for pod in examples:
            groups.setdefault(pod.group_key, pod)
        numbers = {key: number for number, key in enumerate(groups)}
        group = np.array([numbers[pod.group_key] for pod in examples], dtype=np.intp)
        # Each pair of a group and a row as one number, so that the pairs of a group are next to each other.
        places, counts = np.unique(group[shapes] * self.columns + rows, return_counts=True)
        starts = np.searchsorted(places, np.arange(len(groups) + 1) * self.columns)
        for number, pod in enumerate(groups.values()):
            of_group = slice(starts[number], starts[number + 1])
            rows_of_group = (places[of_group] - number * self.columns).tolist()
            self.groups.add_counts(pod, dict(zip(rows_of_group, counts[of_group].tolist(), strict=True)))

    def set_requested(self, row: int, requested: Mapping[str, int], pods: int) -> None:
        """Sets the sum of the requests of the pods of a node that has none in this snapshot, and their number.

        For callers that do not know the pods, and read no scores.
        """
        for resource in requested:
            self._index(resource)
        for resource, index in self.resources.items():
            self.requested[index, row] = requested.get(resource, 0)
        self.requested[3, row] = pods

    def remove_pod(self, pod: PodInfo, row: int) -> PodInfo:
        """Removes the pod of this uid, and returns it as it was added, which `pod` may differ from. Raises KeyError if
        the node does not have it."""
        removed = self._writable(row).pop(pod.uid)
        self._count(removed, row, -1)
        self.groups.remove(removed, row)
        return removed

    def put_pod(self, pod: PodInfo, row: int) -> None:
        """Adds a pod, or replaces the pod of this uid on this node."""
        before = self._pods[row].get(pod.uid)
        if before is not None and before.requests is pod.requests and before.group_key == pod.group_key:
            # What was parsed is shared (see PodInfo.updated): the sums remain.
            self._writable(row)[pod.uid] = pod
            return
        if before is not None:
            self.remove_pod(before, row)
        self.add_pod(pod, row)

    def clone(self) -> "ClusterSnapshot":
        """A copy whose pods can be changed without an effect on this one. Its nodes must not be changed."""
        copy = object.__new__(ClusterSnapshot)
        copy.__dict__.update(self.__dict__)
        copy.requested, copy.assumed = self.requested.copy(), self.assumed.copy()
        copy.groups = self.groups.clone()
        copy._priorities = self._priorities.copy()
        copy.resources = dict(self.resources)
        copy._pods = list(self._pods)
        copy._owned = set()
        return copy

    def _writable(self, row: int) -> dict[str, PodInfo]:
        if self._owned is not None and row not in self._owned:
            self._pods[row] = dict(self._pods[row])
            self._owned.add(row)
        return self._pods[row]

    def _count(self, pod: PodInfo, row: int, sign: int) -> None:
        for resource, amount in pod.requests.items():
            index = self._index(resource)  # may replace the array
            self._add(self.requested, index, row, sign * amount)
        self.requested[3, row] += sign
        self._priorities[pod.priority] += sign
        if not self._priorities[pod.priority]:
            del self._priorities[pod.priority]
        self._add(self.assumed, 0, row, sign * pod.assumed_cpu)
        self._add(self.assumed, 1, row, sign * pod.assumed_memory)

    @staticmethod
    def _add(amounts: Ints, index: int, row: int, amount: int) -> None:
        """Sums have 64 bits, as in kube-scheduler."""
        total = amounts.item(index, row) + amount
        amounts[index, row] = total if -(2**63) <= total < 2**63 else wrapped(total)

    def _index(self, resource: str) -> int:
        index = self.resources.get(resource)
        if index is None:
            index = self.resources[resource] = len(self.resources)
            self.allocatable, self.requested = (
                np.vstack([each, np.zeros((1, self.columns), dtype=np.int64)])
                for each in (self.allocatable, self.requested)
            )
        return index

    def _free_row(self) -> int:
        if not self._free:
            self._free += range(self.columns + _SPARE - 1, self.columns - 1, -1)
            self.nodes += [None] * _SPARE
            self._pods += [{} for _ in range(_SPARE)]
            self.allocatable, self.requested, self.assumed = (
                np.hstack([each, np.zeros((len(each), _SPARE), dtype=np.int64)])
                for each in (self.allocatable, self.requested, self.assumed)
            )
        return self._free.pop()

    def _forget_results(self) -> None:
        """Forgets what was computed from labels, taints and cordons."""
        self.labels.forget()
        self._taints, self._cordoned = None, []
        self._untolerated, self._untolerated_preferences = {}, {}


def _cached_parts(node: Node) -> tuple[object, ...]:
    """The parts of a node on which kept results depend."""
    return node.metadata.labels, node.spec
