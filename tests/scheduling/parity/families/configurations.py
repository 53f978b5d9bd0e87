"""Configurations other than the default: strategies, weights, arguments, disabled plugins and several profiles."""

from typing import Any

from scheduling.parity.common_objects import GPU, Document
from scheduling.parity.generator import ClusterGenerator

CPU_MEMORY_GPU = [{"name": "cpu", "weight": 3}, {"name": "memory", "weight": 1}, {"name": GPU, "weight": 5}]
DEFAULT_NAME = "default-scheduler"
ZONE, HOSTNAME, DISK = "topology.kubernetes.io/zone", "kubernetes.io/hostname", "disk"


def _profile(*arguments: tuple[str, Document], plugins: Document | None = None, name: str = DEFAULT_NAME) -> Document:
    found: Document = {"schedulerName": name}
    if arguments:
        found["pluginConfig"] = [{"name": plugin, "args": values} for plugin, values in arguments]
    if plugins:
        found["plugins"] = plugins
    return found


def _fit(strategy: str, **values: Any) -> tuple[str, Document]:
    return "NodeResourcesFit", {"scoringStrategy": {"type": strategy, **values}}


def _ratio(*points: tuple[int, int], resources: list[Document] | None = None) -> tuple[str, Document]:
    shape = [{"utilization": utilization, "score": score} for utilization, score in points]
    return _fit("RequestedToCapacityRatio", resources=resources, requestedToCapacityRatio={"shape": shape})


def _spread(key: str, skew: int, action: str) -> Document:
    return {"topologyKey": key, "maxSkew": skew, "whenUnsatisfiable": action}


PROFILES: tuple[tuple[Document, ...], ...] = (
    (_profile(_fit("MostAllocated", resources=CPU_MEMORY_GPU)),),
    (_profile(_ratio((0, 0), (40, 7), (70, 10), (100, 2), resources=CPU_MEMORY_GPU)),),
    (_profile(_ratio((10, 10), (90, 0))), _profile(_fit("MostAllocated"), name="packing")),
    (
        _profile(
            _fit("LeastAllocated", resources=[*CPU_MEMORY_GPU, {"name": "ephemeral-storage", "weight": 2}]),
            ("NodeResourcesBalancedAllocation", {"resources": [{"name": "cpu"}, {"name": "memory"}, {"name": GPU}]}),
        ),
    ),
    (
        _profile(
            ("InterPodAffinity", {"hardPodAffinityWeight": 73}),
            (
                "NodeAffinity",
                {
                    "addedAffinity": {
                        "requiredDuringSchedulingIgnoredDuringExecution": {
                            "nodeSelectorTerms": [
                                {"matchExpressions": [{"key": "number", "operator": "Lt", "values": ["17"]}]}
                            ]
                        },
                        "preferredDuringSchedulingIgnoredDuringExecution": [
                            {
                                "weight": 40,
                                "preference": {
                                    "matchExpressions": [{"key": DISK, "operator": "In", "values": ["ssd"]}]
                                },
                            }
                        ],
                    }
                },
            ),
        ),
    ),
    (
        _profile(
            (
                "PodTopologySpread",
                {
                    "defaultingType": "List",
                    "defaultConstraints": [
                        _spread(ZONE, 1, "DoNotSchedule"),
                        _spread(DISK, 2, "ScheduleAnyway"),
                        _spread(HOSTNAME, 4, "ScheduleAnyway"),
                    ],
                },
            ),
            ("InterPodAffinity", {"hardPodAffinityWeight": 0, "ignorePreferredTermsOfExistingPods": True}),
        ),
    ),
    (
        _profile(
            plugins={
                "multiPoint": {
                    "disabled": [{"name": "InterPodAffinity"}, {"name": "NodeResourcesBalancedAllocation"}],
                    "enabled": [{"name": "TaintToleration", "weight": 11}, {"name": "ImageLocality", "weight": 7}],
                }
            }
        ),
        _profile(
            plugins={
                "score": {
                    "disabled": [{"name": "*"}],
                    "enabled": [{"name": "NodeAffinity", "weight": 2}, {"name": "PodTopologySpread", "weight": 9}],
                },
                "filter": {"disabled": [{"name": "TaintToleration"}, {"name": "NodeResourcesFit"}]},
                "postFilter": {"disabled": [{"name": "*"}]},
            },
            name="packing",
        ),
    ),
    (
        _profile(
            plugins={
                "multiPoint": {"disabled": [{"name": "PodTopologySpread"}]},
                "score": {"disabled": [{"name": "*"}]},
            }
        ),
    ),
    (
        _profile(
            ("DefaultPreemption", {"minCandidateNodesPercentage": 100, "minCandidateNodesAbsolute": 0}),
            ("PodTopologySpread", {"defaultingType": "List"}),
            plugins={
                "preScore": {"disabled": [{"name": "InterPodAffinity"}, {"name": "NodeResourcesFit"}]},
                "score": {"disabled": [{"name": "InterPodAffinity"}]},
            },
        ),
    ),
    (
        _profile(
            ("NodeResourcesFit", {"ignoredResources": [GPU], "ignoredResourceGroups": ["other.example.com"]}),
            plugins={
                "preFilter": {"disabled": [{"name": "NodePorts"}]},
                "filter": {"disabled": [{"name": "NodePorts"}]},
            },
        ),
    ),
)


class ConfiguredCluster(ClusterGenerator):
    """One of PROFILES. Pods are divided among its profiles."""

    name = "configurations"

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self._profiles = PROFILES[seed % len(PROFILES)]
        self.configuration = {"profiles": list(self._profiles)}

    def new_pods(self, count: int) -> list[Document]:
        pods = super().new_pods(count)
        for pod in pods:
            pod["spec"]["schedulerName"] = self._random.choice(self._profiles)["schedulerName"]
        return pods
