"""The pods of the node that belong to a band, as the API server last reported them."""

import msgspec

from equipoise.contracts.load.pod_priority import PriorityClass


class BandPod(msgspec.Struct, frozen=True, kw_only=True):
    """A pod of the bands mid, batch or free. Amounts are in cores and bytes; None if the pod requests none."""

    uid: str
    namespace: str
    name: str
    band: PriorityClass
    priority: int = 0
    cpu_request: float | None = None
    cpu_limit: float | None = None
    memory_limit: float | None = None
    evictable: bool = False
    """Whether the pod may be evicted: it belongs to the band batch or free, and a controller creates it again
    elsewhere."""

    terminating: bool = False


class WatchedPods:
    """The pods of bands. The thread that watches replaces the mapping as a whole; the loop reads one mapping per
    round."""

    def __init__(self) -> None:
        self.by_uid: dict[str, BandPod] | None = None
        """None until the pods have been received. The last ones are kept while the API server is unreachable."""

    def replace(self, pods: list[BandPod]) -> None:
        self.by_uid = {pod.uid: pod for pod in pods}

    def put(self, pod: BandPod) -> None:
        self.by_uid = {**(self.by_uid or {}), pod.uid: pod}

    def remove(self, uid: str) -> None:
        self.by_uid = {key: pod for key, pod in (self.by_uid or {}).items() if key != uid}
