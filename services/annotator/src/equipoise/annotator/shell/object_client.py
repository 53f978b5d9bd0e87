"""Reads and PATCHes objects at the configured rates, and reports what the API server refuses."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from prometheus_client import Counter

from equipoise.annotator.decisions.annotation_target import AnnotationTarget
from equipoise.annotator.decisions.existing_value import Precondition
from equipoise.contracts.kubernetes.objects.metadata import ObjectMeta
from equipoise.contracts.kubernetes.objects.node import Node
from equipoise.runtime.async_tools.rate_limiter import RateLimiter
from equipoise.runtime.kubernetes.client import NODES, WORKLOAD_RESOURCES, Kube, KubeError, Resource
from equipoise.runtime.kubernetes.paced_requests import PacedRequests, concerns_one_object
from equipoise.runtime.process.clock import Clock
from equipoise.runtime.process.health import Health

RESOURCES: Mapping[tuple[str, str], Resource[Any]] = {("", "Node"): NODES, **WORKLOAD_RESOURCES}
"""The objects that can be annotated, by group and kind."""


@dataclass(kw_only=True)
class ObjectClient:
    """The API server, as the annotator uses it."""

    kube: Kube
    clock: Clock
    health: Health
    reads: RateLimiter
    writes: RateLimiter
    results: Counter
    """Writes by kind and result."""

    on_node: Callable[[Node], None] = lambda node: None
    """A function that gets each node that is read."""

    def __post_init__(self) -> None:
        self._requests = PacedRequests(self.clock, self.reads, self.writes)

    async def get(self, target: AnnotationTarget) -> ObjectMeta:
        reading = self.kube.get(RESOURCES[target.group, target.kind], target.name, target.namespace)
        annotated = await self._requests.send(reading)
        self.health.set_problem("api server", None)
        if isinstance(annotated, Node):
            self.on_node(annotated)
        metadata: ObjectMeta = annotated.metadata
        return metadata

    async def annotate(
        self, target: AnnotationTarget, precondition: Precondition, annotations: Mapping[str, str]
    ) -> None:
        patching = self.kube.annotate(
            RESOURCES[target.group, target.kind],
            target.name,
            annotations,
            namespace=target.namespace,
            uid=precondition.uid,
            version=precondition.version,
            expected=precondition.value,
        )
        await self._requests.send(patching)
        self.health.set_problem("api server", None)
        self.health.set_problem(f"annotate {target.kind}", None)
        self.results.labels(target.kind, "written").inc()

    def on_error(self, target: AnnotationTarget, error: KubeError | TimeoutError) -> bool:
        """Report an error. Returns whether the object may be its cause, which is unknown after a timeout."""
        if concerns_one_object(error):
            self.results.labels(target.kind, "refused").inc()
            self.health.set_problem(f"annotate {target.kind}", f"{target.display_name} cannot be annotated: {error}")
            return True
        self.results.labels(target.kind, "failed").inc()
        self.health.set_problem("api server", f"the API server does not accept annotations: {error}")
        return isinstance(error, TimeoutError)
