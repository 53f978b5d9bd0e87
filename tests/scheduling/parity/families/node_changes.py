"""Nodes that change between two pods: cordoned, tainted, labelled, resized, deleted and created again."""

from scheduling.parity.common_objects import DISKS, ZONES, Document
from scheduling.parity.generator import Change, ClusterGenerator


class NodeChangesCluster(ClusterGenerator):
    """A deleted node leaves its pods behind."""

    name = "node-changes"

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self._gone: set[str] = set()

    def _node(self, name: str) -> Document:
        """A node without images: that kube-scheduler counts those of deleted nodes is a difference that is intended."""
        node = super()._node(name)
        node["status"]["images"] = []
        return node

    def changes(self, number: int) -> list[Change]:
        return [change for _ in range(self._random.randint(1, 3)) if (change := self._change()) is not None]

    def _change(self) -> Change | None:
        name = self._random.choice(self.names)
        if name in self._gone:
            if not self._chance(0.5):
                return None
            self._gone.remove(name)
            node = self._node(name)
            node["spec"]["taints"].append({"key": "again", "effect": "PreferNoSchedule"})
            return Change(
                method="POST", path="/api/v1/nodes", body=node, node=name, seen=f'"Add event for node" node="{name}"'
            )
        path = f"/api/v1/nodes/{name}"
        if self._chance(0.15):
            self._gone.add(name)
            return Change(method="DELETE", path=path, node=name, seen=f'"Delete event for node" node="{name}"')
        choice = self._random.choice
        # The number makes each change one that the API server stores.
        labels: Document = {"number": str(self._random.randint(100, 10**6)), "disk": choice((*DISKS, None))}
        labels["topology.kubernetes.io/zone"] = choice((*ZONES, None))
        taints = [
            {"key": "dedicated", "value": choice(("a", "b")), "effect": effect}
            for effect in ("NoSchedule", "PreferNoSchedule")
            if self._chance(0.2)
        ]
        body: Document = {"metadata": {"labels": labels}}
        if self._chance(0.5):
            body["spec"] = {"taints": taints, "unschedulable": self._chance(0.25)}
        elif self._chance(0.5):
            path += "/status"
            size = {"cpu": choice(("1", "2", "6")), "memory": choice(("1Gi", "5Gi")), "pods": choice(("0", "3", "110"))}
            body = {"status": {"allocatable": {**size, "ephemeral-storage": f"{self._random.randint(1, 10**6)}Ki"}}}
        return Change(method="PATCH", path=path, body=body, node=name, seen=f'"Update event for node" node="{name}"')
