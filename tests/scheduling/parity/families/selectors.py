"""Unusual selectors and labels: empty and missing ones, values that are empty or look like numbers, unknown keys."""

from scheduling.parity.common_objects import APPS, NAMESPACES, Document
from scheduling.parity.generator import ClusterGenerator

KEYS = ("kubernetes.io/hostname", "topology.kubernetes.io/zone", "disk", "number", "unknown")
NUMBERS = ("0", "-1", "5", "007", "1_000", "99999999999999999999", "abc", "", "+5")
"""Values of the label number, and of requirements with Gt and Lt."""


class SelectorsCluster(ClusterGenerator):
    name = "selectors"

    def nodes(self) -> list[Document]:
        nodes = super().nodes()
        for node in nodes:
            labels = node["metadata"]["labels"]
            labels["number"] = self._random.choice([each for each in NUMBERS if each[:1] not in ("-", "+")])
            if self._chance(0.25):
                labels["topology.kubernetes.io/zone"] = ""
            if self._chance(0.15):
                labels["disk"] = ""
            if self._chance(0.1):
                del labels["kubernetes.io/hostname"]
        return nodes

    def objects(self) -> list[Document]:
        workloads = [
            {
                "apiVersion": "apps/v1",
                "kind": kind,
                "metadata": {"name": f"{kind.lower()}-{app}", "namespace": namespace},
                "spec": {
                    "replicas": 0,
                    "selector": self._workload_selector(app),
                    "template": {
                        "metadata": {"labels": {"app": app, "version": "1"}},
                        "spec": {"containers": [{"name": "main", "image": "fake"}]},
                    },
                },
            }
            for namespace in NAMESPACES
            for app in APPS
            for kind in ("ReplicaSet", "StatefulSet")
        ]
        return [*super().objects(), *workloads]

    def _workload_selector(self, app: str) -> Document:
        if self._chance(0.5):
            return {"matchLabels": {"app": app}}
        rules = [{"key": "version", "operator": "In", "values": ["1", "2"]}]
        return {"matchLabels": {"app": app}, "matchExpressions": rules}

    def _pod(self, name: str, *, simple: bool = False) -> Document:
        pod = super()._pod(name, simple=simple)
        if self._chance(0.4):
            kind = self._random.choice(("ReplicaSet", "StatefulSet"))
            owner = {
                "apiVersion": "apps/v1",
                "kind": kind,
                "name": f"{kind.lower()}-{self._random.choice((*APPS, 'none'))}",
                "uid": "a-uid",
                "controller": True,
            }
            pod["metadata"]["ownerReferences"] = [owner]
        return pod

    def _labels(self) -> Document:
        labels = super()._labels()
        if self._chance(0.2):
            labels["version"] = ""
        return labels

    def _selector(self) -> Document:
        match self._random.randint(0, 5):
            case 0:
                return {}
            case 1:
                return {"matchLabels": {"version": ""}}
            case 2:
                return {
                    "matchLabels": {"app": self._random.choice(APPS)},
                    "matchExpressions": [{"key": "app", "operator": "NotIn", "values": self._some(APPS)}],
                }
        return super()._selector()

    def _pod_term(self) -> Document:
        term = super()._pod_term()
        term["topologyKey"] = self._random.choice(KEYS)
        if self._chance(0.15):
            term["labelSelector"] = None
        if self._chance(0.3):
            term["namespaceSelector"] = self._random.choice(
                (
                    {},
                    None,
                    {"matchLabels": {"team": "c"}},
                    {"matchExpressions": [{"key": "tier", "operator": "DoesNotExist"}]},
                    {"matchLabels": {"kubernetes.io/metadata.name": "alpha"}},
                )
            )
        if self._chance(0.3):
            term["namespaces"] = self._some((*NAMESPACES, "unknown"))
        if term["labelSelector"] is not None and self._chance(0.2):
            term["mismatchLabelKeys"] = ["app"]
        return term

    def _spread(self) -> list[Document]:
        found = super()._spread()
        for constraint in found:
            if self._chance(0.2):
                constraint["topologyKey"] = self._random.choice(("number", "unknown"))
            if self._chance(0.15):
                constraint["labelSelector"] = None
                constraint.pop("matchLabelKeys", None)
            if constraint["whenUnsatisfiable"] == "DoNotSchedule" and self._chance(0.3):
                constraint["minDomains"] = self._random.randint(1, 7)
        return found

    def _node_term(self, *, fields: bool = True) -> Document:
        match self._random.randint(0, 6):
            case 0 if fields:
                return {}
            case 1:
                operator = self._random.choice(("Gt", "Lt"))
                rule = {"key": "number", "operator": operator, "values": [self._random.choice(NUMBERS)]}
                return {"matchExpressions": [rule]}
            case 2:
                return {"matchExpressions": [{"key": "disk", "operator": "In", "values": ["", "ssd"]}]}
            case 3 if fields:
                names = [self._random.choice(self.names)]
                rules = [{"key": "metadata.name", "operator": "NotIn", "values": names}]
                others = [{"key": "disk", "operator": "Exists"}] if self._chance(0.5) else []
                return {"matchFields": rules, "matchExpressions": others}
        return super()._node_term(fields=fields)
