"""Hugepages, extended resources, overhead, sidecars, requests at pod level, containers that are resized, and ports."""

from scheduling.parity.common_objects import GPU, Document
from scheduling.parity.generator import ClusterGenerator

FPGA = "other.example.com/fpga"
HUGE = "hugepages-2Mi"

CONFIGURATIONS: tuple[Document, ...] = (
    {},
    {"NodeResourcesFit": {"ignoredResourceGroups": ["other.example.com"]}},
    {
        "NodeResourcesFit": {
            "scoringStrategy": {
                "type": "LeastAllocated",
                "resources": [{"name": HUGE, "weight": 3}, {"name": "pods", "weight": 2}, {"name": "cpu", "weight": 1}],
            }
        },
        "NodeResourcesBalancedAllocation": {
            "resources": [{"name": "cpu"}, {"name": "memory"}, {"name": HUGE}, {"name": "pods"}]
        },
    },
)


class ResourcesCluster(ClusterGenerator):
    name = "resources"
    objects_first = True

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        arguments = CONFIGURATIONS[seed % len(CONFIGURATIONS)]
        if arguments:
            given = [{"name": name, "args": values} for name, values in arguments.items()]
            self.configuration = {"profiles": [{"schedulerName": "default-scheduler", "pluginConfig": given}]}

    def objects(self) -> list[Document]:
        classes = [
            {
                "apiVersion": "node.k8s.io/v1",
                "kind": "RuntimeClass",
                "metadata": {"name": name},
                "handler": "runc",
                "overhead": {"podFixed": overhead},
            }
            for name, overhead in (("heavy", {"cpu": "300m", "memory": "200Mi"}), ("light", {"memory": "1"}))
        ]
        return [*classes, *super().objects()]

    def nodes(self) -> list[Document]:
        nodes = super().nodes()
        for node in nodes:
            size = node["status"]["allocatable"]
            if self._chance(0.5):
                size[HUGE] = self._random.choice(("0", "64Mi", "256Mi"))
            if self._chance(0.5):
                size[FPGA] = self._random.choice(("0", "2", "8"))
        return nodes

    def _pod(self, name: str, *, simple: bool = False) -> Document:
        pod = super()._pod(name, simple=simple)
        spec = pod["spec"]
        if self._chance(0.3):
            spec["runtimeClassName"] = self._random.choice(("heavy", "light"))
        spec["initContainers"] = [self._initial(number) for number in range(self._random.choice((0, 0, 1, 3)))]
        if self._chance(0.25) and HUGE not in str(spec):
            spec["resources"] = {
                "requests": {"cpu": self._random.choice(("3", "1200m"))},
                "limits": {"cpu": "4", "memory": self._random.choice(("3Gi", "900Mi"))},
            }
        return pod

    def _initial(self, number: int) -> Document:
        container = self._container(f"initial-{number}")
        if self._chance(0.5):
            container["restartPolicy"] = "Always"
        return container

    def _container(self, name: str) -> Document:
        container = super()._container(name)
        resources = container["resources"]
        if self._chance(0.2):
            resources["requests"][HUGE] = resources["limits"][HUGE] = self._random.choice(("2Mi", "64Mi", "0"))
            resources["requests"].setdefault("cpu", "10m")
        if self._chance(0.2):
            resources["requests"][FPGA] = resources["limits"][FPGA] = self._random.choice(("0", "1", "3"))
        if self._chance(0.1):
            resources["requests"][GPU] = resources["limits"][GPU] = "0"
        if self._chance(0.2):
            addresses = ("", "0.0.0.0", "127.0.0.1", "10.0.0.1", "::", "::1")
            container["ports"] = [
                {
                    "containerPort": 8080,
                    "hostPort": self._random.choice((8080, 9090)),
                    "hostIP": self._random.choice(addresses),
                    "protocol": self._random.choice(("TCP", "UDP", "SCTP")),
                    "name": f"port-{number}",
                }
                for number in range(self._random.randint(1, 2))
            ]
        return container
