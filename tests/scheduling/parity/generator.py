"""Random clusters and pods over the features of the default plugins, from a seed, as manifests."""

from random import Random
from typing import Any

import msgspec
from scheduling.parity.common_objects import APPS, CLASSES, DISKS, GPU, IMAGES, NAMESPACES, ZONES, Document


class Change(msgspec.Struct, frozen=True, kw_only=True):
    """A request to the API server."""

    method: str
    path: str
    body: Document | None = None
    node: str = ""
    """The node that is changed."""

    seen: str = ""
    """Part of the line that kube-scheduler logs when it knows of the change (`--vmodule=eventhandlers=4`)."""


class ClusterGenerator:
    """One cluster and its pods. The same seed gives the same ones."""

    name = "default"

    configuration: Document = {}  # noqa: RUF012  replaced, never changed
    """A KubeSchedulerConfiguration, without `apiVersion` and `kind`."""

    at_once = False
    """All pods are there before kube-scheduler starts. Otherwise one is created after the other."""

    objects_first = False
    """Pods need the objects in order to run."""

    victims_last = False
    """Victims of a preemption remain as terminating pods, and the pod that removes them remains nominated."""

    def __init__(self, seed: int) -> None:
        self._random = Random(seed)
        self._seed = seed
        self.names = [f"node-{seed}-{number}" for number in range(self._random.randint(3, 12))]

    def nodes(self) -> list[Document]:
        return [self._node(name) for name in self.names]

    def existing_pods(self) -> list[Document]:
        """They have a node already."""
        count = self._random.randint(0, 4 * len(self.names))
        pods = [self._pod(f"old-{self._seed}-{number}", simple=True) for number in range(count)]
        for pod in pods:
            pod["spec"]["nodeName"] = self._random.choice(self.names)
        return pods

    def objects(self) -> list[Document]:
        """All others. They exist before the pods."""
        return [*self.budgets(), *self.services()]

    def prepared(self) -> list[Change]:
        """What happens once all pods run."""
        return []

    def changes(self, number: int) -> list[Change]:
        """What happens before the pod of this number is created."""
        return []

    def new_pods(self, count: int) -> list[Document]:
        return [self._pod(f"new-{self._seed}-{number}") for number in range(count)]

    def budgets(self) -> list[Document]:
        return [
            {
                "apiVersion": "policy/v1",
                "kind": "PodDisruptionBudget",
                "metadata": {"name": f"budget-{app}", "namespace": namespace},
                "spec": {"minAvailable": self._random.randint(0, 2), "selector": {"matchLabels": {"app": app}}},
            }
            for namespace in NAMESPACES
            for app in APPS
            if self._chance(0.2)
        ]

    def services(self) -> list[Document]:
        """Pods without constraints of their own are spread by those that select them."""
        return [
            {
                "apiVersion": "v1",
                "kind": "Service",
                "metadata": {"name": app, "namespace": namespace},
                "spec": {"selector": {"app": app}, "ports": [{"port": 80}]},
            }
            for namespace in NAMESPACES
            for app in APPS
            if self._chance(0.3)
        ]

    def _chance(self, probability: float) -> bool:
        return self._random.random() < probability

    def _some(self, values: Any, least: int = 1) -> list[Any]:
        values = list(values)
        return self._random.sample(values, self._random.randint(least, len(values)))

    def _node(self, name: str) -> Document:
        choice = self._random.choice
        labels = {"kubernetes.io/hostname": name, "number": str(self._random.randint(0, 20))}
        if self._chance(0.85):
            labels["topology.kubernetes.io/zone"] = choice(ZONES)
        if self._chance(0.7):
            labels["disk"] = choice(DISKS)
        size = {
            "cpu": choice(("1", "2", "3900m", "8")),
            "memory": choice(("1Gi", "3Gi", "8Gi")),
            "pods": choice(("3", "10", "110")),
            "ephemeral-storage": "20Gi",
        }
        if self._chance(0.3):
            size[GPU] = choice(("1", "4"))
        taints = [
            {"key": choice(("dedicated", "spot")), "value": choice(("a", "b")), "effect": effect}
            for effect in ("NoSchedule", "PreferNoSchedule")
            if self._chance(0.2)
        ]
        images = [
            {"names": [image], "sizeBytes": size_bytes} for image, size_bytes in IMAGES.items() if self._chance(0.4)
        ]
        return {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {"name": name, "labels": labels},
            "spec": {"taints": taints, "unschedulable": self._chance(0.07)},
            "status": {"allocatable": size, "capacity": size, "images": images},
        }

    def _pod(self, name: str, *, simple: bool = False) -> Document:
        choice = self._random.choice
        spec: Document = {"containers": [self._container("main")], "terminationGracePeriodSeconds": 0}
        if self._chance(0.15):
            spec["containers"].append(self._container("second"))
        if self._chance(0.15):
            spec["initContainers"] = [self._container("first")]
            if self._chance(0.5):
                spec["initContainers"][0]["restartPolicy"] = "Always"
        if self._chance(0.06):
            spec["resources"] = {"requests": {"cpu": choice(("2", "2500m")), "memory": choice(("2Gi", "4Gi"))}}
        if self._chance(0.6):
            spec["priorityClassName"] = choice(tuple(CLASSES))
        affinity: Document = {}
        if self._chance(0.3):
            affinity["podAntiAffinity"] = self._pod_affinity()
        if not simple:
            self._constrain(spec, affinity)
        elif self._chance(0.15):
            affinity["podAffinity"] = self._pod_affinity()
        if affinity:
            spec["affinity"] = affinity
        return {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": name, "namespace": choice(tuple(NAMESPACES)), "labels": self._labels()},
            "spec": spec,
        }

    def _labels(self) -> Document:
        labels = {"app": self._random.choice(APPS)} if self._chance(0.9) else {}
        if self._chance(0.4):
            labels["version"] = self._random.choice(("1", "2"))
        return labels

    def _container(self, name: str) -> Document:
        choice = self._random.choice
        requests = {}
        if self._chance(0.75):
            requests["cpu"] = choice(("0", "50m", "300m", "700m", "1500m"))
        if self._chance(0.7):
            requests["memory"] = choice(("64Mi", "300Mi", "1Gi", "123456789"))
        if self._chance(0.1):
            requests["ephemeral-storage"] = choice(("1Gi", "15Gi"))
        limits = {}
        if self._chance(0.08):
            limits[GPU] = requests[GPU] = choice(("1", "2"))
        container: Document = {
            "name": name,
            "image": choice((*IMAGES, "registry.example/unknown:1", "registry.example/plain")),
            "resources": {"requests": requests, "limits": limits},
        }
        if self._chance(0.08):
            port: Document = {"containerPort": 8080, "hostPort": choice((8080, 9090))}
            if self._chance(0.3):
                port["hostIP"] = choice(("127.0.0.1", "10.0.0.1"))
            if self._chance(0.2):
                port["protocol"] = "UDP"
            container["ports"] = [port]
        return container

    def _constrain(self, spec: Document, affinity: Document) -> None:
        choice = self._random.choice
        if self._chance(0.12):
            spec["nodeSelector"] = {"disk": choice(DISKS)}
        if self._chance(0.3):
            affinity["nodeAffinity"] = self._node_affinity()
        if self._chance(0.25):
            affinity["podAffinity"] = self._pod_affinity()
        if self._chance(0.35):
            spec["tolerations"] = [self._toleration() for _ in range(self._random.randint(1, 2))]
        if self._chance(0.35):
            spec["topologySpreadConstraints"] = self._spread()

    def _toleration(self) -> Document:
        choice = self._random.choice
        if self._chance(0.1):
            return {"operator": "Exists"}
        toleration: Document = {"key": choice(("dedicated", "spot", "node.kubernetes.io/unschedulable"))}
        if self._chance(0.5):
            toleration["operator"] = "Exists"
        else:
            toleration["value"] = choice(("a", "b"))
        if self._chance(0.6):
            toleration["effect"] = choice(("NoSchedule", "PreferNoSchedule"))
        return toleration

    def _node_affinity(self) -> Document:
        found: Document = {}
        if self._chance(0.5):
            terms = [self._node_term() for _ in range(self._random.randint(1, 2))]
            found["requiredDuringSchedulingIgnoredDuringExecution"] = {"nodeSelectorTerms": terms}
        if self._chance(0.7):
            found["preferredDuringSchedulingIgnoredDuringExecution"] = [
                {"weight": self._random.randint(1, 100), "preference": self._node_term(fields=False)}
                for _ in range(self._random.randint(1, 3))
            ]
        return found

    def _node_term(self, *, fields: bool = True) -> Document:
        if fields and self._chance(0.15):
            names = [self._random.choice(self.names)]
            return {"matchFields": [{"key": "metadata.name", "operator": "In", "values": names}]}
        rules: list[Document] = []
        for _ in range(self._random.randint(1, 2)):
            match self._random.randint(0, 5):
                case 0:
                    rules.append({"key": "disk", "operator": "In", "values": self._some(DISKS)})
                case 1:
                    rules.append({"key": "disk", "operator": "NotIn", "values": self._some(DISKS)})
                case 2:
                    rules.append({"key": "topology.kubernetes.io/zone", "operator": "In", "values": self._some(ZONES)})
                case 3:
                    rules.append({"key": "disk", "operator": self._random.choice(("Exists", "DoesNotExist"))})
                case _:
                    operator = self._random.choice(("Gt", "Lt"))
                    rules.append({"key": "number", "operator": operator, "values": [str(self._random.randint(0, 20))]})
        return {"matchExpressions": rules}

    def _pod_affinity(self) -> Document:
        found: Document = {}
        if self._chance(0.5):
            found["requiredDuringSchedulingIgnoredDuringExecution"] = [self._pod_term()]
        if self._chance(0.6):
            found["preferredDuringSchedulingIgnoredDuringExecution"] = [
                {"weight": self._random.randint(1, 100), "podAffinityTerm": self._pod_term()}
                for _ in range(self._random.randint(1, 2))
            ]
        return found

    def _pod_term(self) -> Document:
        term: Document = {
            "topologyKey": self._random.choice(("kubernetes.io/hostname", "topology.kubernetes.io/zone", "disk")),
            "labelSelector": self._selector(),
        }
        if self._chance(0.2):
            term["namespaces"] = self._some(NAMESPACES)
        if self._chance(0.2):
            term["namespaceSelector"] = self._random.choice(({}, {"matchLabels": {"tier": "x"}}))
        if self._chance(0.1):
            term["matchLabelKeys"] = ["version"]
        return term

    def _selector(self) -> Document:
        if self._chance(0.6):
            return {"matchLabels": {"app": self._random.choice(APPS)}}
        operator = self._random.choice(("In", "NotIn", "Exists", "DoesNotExist"))
        rule: Document = {"key": "app", "operator": operator}
        if operator in ("In", "NotIn"):
            rule["values"] = self._some(APPS)
        return {"matchExpressions": [rule]}

    def _spread(self) -> list[Document]:
        keys = self._some(("kubernetes.io/hostname", "topology.kubernetes.io/zone", "disk"))[:2]
        found = []
        for key in keys:
            when = self._random.choice(("DoNotSchedule", "ScheduleAnyway"))
            constraint: Document = {
                "maxSkew": self._random.randint(1, 3),
                "topologyKey": key,
                "whenUnsatisfiable": when,
                "labelSelector": self._selector(),
            }
            if when == "DoNotSchedule" and self._chance(0.25):
                constraint["minDomains"] = self._random.randint(1, 4)
            if self._chance(0.2):
                constraint["nodeAffinityPolicy"] = self._random.choice(("Honor", "Ignore"))
            if self._chance(0.2):
                constraint["nodeTaintsPolicy"] = self._random.choice(("Honor", "Ignore"))
            if self._chance(0.15):
                constraint["matchLabelKeys"] = ["version"]
            found.append(constraint)
        return found
