"""Reads and PATCHes objects at the configured rates, and reports what the API server refuses."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from prometheus_client import Counter

from equipoise.annotator.decisions.annotation_target import AnnotationTarget
from equipoise.annotator.decisions.existing_value import Precondition
from equipoise.contracts.kubernetes.objects import ObjectMeta
from equipoise.runtime.async_tools.cancel import run_with_guard, timeout_after
from equipoise.runtime.async_tools.rate_limiter import RateLimiter
from equipoise.runtime.kubernetes.client import NODES, WORKLOAD_RESOURCES, Kube, KubeError, Resource
from equipoise.runtime.process.clock import Clock
from equipoise.runtime.process.health import Health

REQUEST_TIMEOUT = 10.0
"""Seconds for one read or write."""

RETRY_PERIOD = 5.0
"""Seconds without requests after the API server failed, unless it requests more."""

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

    async def get(self, target: AnnotationTarget) -> ObjectMeta:
        reading = self.kube.get(RESOURCES[target.group, target.kind], target.name, target.namespace)
        found = await run_with_guard(reading, timeout_after(self.clock, REQUEST_TIMEOUT))
        self.health.set_problem("api server", None)
        metadata: ObjectMeta = found.metadata
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
        await run_with_guard(patching, timeout_after(self.clock, REQUEST_TIMEOUT))
        self.health.set_problem("api server", None)
        self.health.set_problem(f"annotate {target.kind}", None)
        self.results.labels(target.kind, "written").inc()

    def on_error(self, target: AnnotationTarget, error: KubeError | TimeoutError) -> bool:
        """Report an error. True when the object may be its cause: after a timeout it is not known."""
        if isinstance(error, KubeError) and concerns_one_object(error.status):
            self.results.labels(target.kind, "refused").inc()
            self.health.set_problem(f"annotate {target.kind}", f"{target.display_name} cannot be annotated: {error}")
            return True
        self.results.labels(target.kind, "failed").inc()
        self.health.set_problem("api server", f"the API server does not accept annotations: {error}")
        for limiter in (self.reads, self.writes):
            limiter.suspend(max(RETRY_PERIOD, getattr(error, "retry_after", None) or 0.0))
        return isinstance(error, TimeoutError)


def concerns_one_object(status: int) -> bool:
    """True when requests about other objects may succeed. A webhook that is down causes 500 for its objects only."""
    return 400 <= status <= 500 and status not in (401, 429)
