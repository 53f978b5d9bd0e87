"""Amounts: nothing, too much, fractions, resized containers, ports and images."""

from scheduling.parity.cases.case import Case, a_node, a_pod, status_of

_RESIZED = a_pod("resized", {"cpu": "1", "memory": "1Gi"}, node="a")
_SHRUNK = a_pod("shrunk", {"cpu": "3", "memory": "1Gi"}, node="b")
_TWO = (a_node("a"), a_node("b"))


_BALANCED = {
    "name": "NodeResourcesBalancedAllocation",
    "args": {"resources": [{"name": name} for name in ("cpu", "memory", "ephemeral-storage")]},
}


def _resources(cpu: str, memory: str = "1Gi") -> dict[str, object]:
    return {"requests": {"cpu": cpu, "memory": memory}}


def _actual(cpu: str) -> dict[str, object]:
    return {
        "name": "container-0",
        "image": "i",
        "imageID": "i",
        "ready": True,
        "restartCount": 0,
        "resources": _resources(cpu),
        "allocatedResources": {"cpu": cpu, "memory": "1Gi"},
    }


def _container(name: str, **fields: object) -> dict[str, object]:
    return {"name": name, "image": "registry.example/none:1", **fields}


def _port(number: int, **fields: object) -> dict[str, object]:
    return {"containerPort": 80, "hostPort": number, **fields}


CASES = (
    Case(
        name="nodes without cpu or without any allocatable",
        nodes=[a_node("a", cpu="0"), a_node("b", memory="0"), a_node("c"), a_node("d", pods="0")],
        new=[a_pod("none"), a_pod("zero", {"cpu": "0", "memory": "0"}), a_pod("some", {"memory": "1Gi"})],
    ),
    Case(
        name="memory of a node beyond 64 bits",
        nodes=[a_node("a", memory="8Ei"), a_node("b", memory="16Ei"), a_node("c")],
        new=[a_pod("some", {"memory": "1Gi"}), a_pod("none")],
    ),
    Case(
        name="memory of a node that overflows when it is multiplied by 100",
        nodes=[a_node("a", memory="1Ei"), a_node("b", memory="80Pi"), a_node("c")],
        new=[a_pod("some", {"memory": "1Gi", "cpu": "1"}), a_pod("much", {"memory": "60Pi"})],
    ),
    Case(
        name="requests of pods on a node that overflow",
        nodes=[a_node("a", cpu="8"), a_node("b")],
        pods=[a_pod(f"old-{number}", {"memory": "5Ei"}, node="a") for number in range(2)],
        new=[a_pod("some", {"memory": "1Gi"}), a_pod("much", {"memory": "5Ei"})],
    ),
    Case(
        name="fractions of a millicore and of a byte",
        nodes=[a_node("a", cpu="3m", memory="3"), a_node("b", cpu="4m", memory="4"), a_node("c", cpu="10m")],
        new=[
            a_pod("sum", {"cpu": "1500u", "memory": "1500m"}, {"cpu": "1500u", "memory": "1500m"}),
            a_pod("one", {"cpu": "1n", "memory": "1m"}),
            a_pod("exponent", {"cpu": "1e-3", "memory": "1e0"}),
        ],
    ),
    Case(
        name="containers that were resized",
        nodes=[*_TWO, a_node("c")],
        pods=[_RESIZED, _SHRUNK],
        prepared=[
            status_of(_RESIZED, {"containerStatuses": [_actual("3")]}),
            status_of(_SHRUNK, {"containerStatuses": [_actual("1")]}),
        ],
        new=[a_pod("two", {"cpu": "2"}), a_pod("small", {"cpu": "500m"})],
    ),
    Case(
        name="requests at pod level of memory only, and containers without a request of cpu",
        nodes=list(_TWO),
        pods=[
            a_pod(
                "old",
                {"cpu": "0"},
                {},
                node="a",
                resources={"requests": {"memory": "1Gi"}},
            )
        ],
        new=[a_pod("new", {"cpu": "100m"}), a_pod("more", {"cpu": "0"}, {}, resources={"requests": {"memory": "1Gi"}})],
    ),
    Case(
        name="host ports of containers, sidecars and init containers",
        nodes=[a_node("a"), a_node("b"), a_node("c")],
        pods=[
            a_pod(
                "sidecar",
                node="a",
                initContainers=[_container("s", restartPolicy="Always", ports=[_port(8080)])],
            ),
            a_pod("initial", node="b", initContainers=[_container("i", ports=[_port(8080)])]),
            a_pod("network", node="c", hostNetwork=True),
        ],
        new=[
            a_pod("one", containers=[_container("m", ports=[_port(8080)])]),
            a_pod("two", containers=[_container("m", ports=[_port(8080, hostIP="127.0.0.1")])]),
            a_pod("three", containers=[_container("m", ports=[_port(8080, hostIP="::")])]),
            a_pod("four", containers=[_container("m", ports=[_port(8080, protocol="UDP", hostIP="10.0.0.1")])]),
            a_pod("five", initContainers=[_container("i", ports=[_port(8080)])]),
        ],
    ),
    Case(
        name="names of images",
        nodes=[
            a_node(
                "a",
                images=[
                    {"names": ["localhost:5000/app:latest"], "sizeBytes": 500 * 2**20},
                    {"names": ["app@sha256:0123", "app:2"], "sizeBytes": 700 * 2**20},
                ],
            ),
            a_node("b", images=[{"names": ["app:latest"], "sizeBytes": 900 * 2**20}]),
            a_node("c", images=[{"names": ["tiny:1"], "sizeBytes": 2**20}, {"names": ["none:1"], "sizeBytes": 0}]),
        ],
        new=[
            a_pod("port", containers=[_container("m", image="localhost:5000/app")]),
            a_pod("digest", containers=[_container("m", image="app@sha256:0123")]),
            a_pod("plain", containers=[_container("m", image="app"), _container("n", image="tiny:1")]),
            a_pod("initial", initContainers=[_container("i", image="app:2")]),
            a_pod("volume", volumes=[{"name": "v", "image": {"reference": "app:2"}}]),
        ],
    ),
    Case(
        name="balance of two resources where three are configured",
        nodes=[a_node(name, cpu="100", memory="100Gi", ephemeral_storage="0") for name in "ab"],
        new=[a_pod("one", {"cpu": "72", "memory": "4Gi"}), a_pod("two", {"cpu": "4", "memory": "75Gi"})],
        configuration={"profiles": [{"schedulerName": "default-scheduler", "pluginConfig": [_BALANCED]}]},
    ),
    Case(
        name="a resource that no node has, and 0 of it",
        nodes=list(_TWO),
        new=[
            a_pod("zero", containers=[_container("m", resources={"limits": {"example.com/none": "0"}})]),
            a_pod("one", containers=[_container("m", resources={"limits": {"example.com/none": "1"}})]),
        ],
    ),
)
