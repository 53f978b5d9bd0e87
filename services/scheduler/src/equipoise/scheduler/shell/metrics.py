"""Metrics with the names, labels and buckets of kube-scheduler 1.37 (pkg/scheduler/metrics)."""

from collections.abc import Mapping

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from equipoise.scheduler.state.attempt import Attempt, Result


def _doubling(first: float, count: int) -> list[float]:
    return [first * 2.0**exponent for exponent in range(count)]


class SchedulerMetrics:
    """The metrics of one process."""

    def __init__(self, registry: CollectorRegistry) -> None:
        outcome = ("result", "profile")
        self._attempts = Counter(
            "scheduler_schedule_attempts",
            "Attempts to schedule a pod, by result: scheduled, unschedulable (no node fits), error.",
            outcome,
            registry=registry,
        )
        self._duration = Histogram(
            "scheduler_scheduling_attempt_duration_seconds",
            "Duration of an attempt, with the binding.",
            outcome,
            buckets=_doubling(0.001, 15),
            registry=registry,
        )
        self._tries = Histogram(
            "scheduler_pod_scheduling_attempts",
            "Attempts until a pod was scheduled.",
            buckets=_doubling(1, 5),
            registry=registry,
        )
        self._pending = Gauge(
            "scheduler_pending_pods",
            "Pods that wait, by queue: active, backoff, unschedulable, gated.",
            ("queue",),
            registry=registry,
        )
        self._preemptions = Counter("scheduler_preemption_attempts", "Preemptions that were begun.", registry=registry)
        self._victims = Histogram(
            "scheduler_preemption_victims",
            "Pods that a preemption removes.",
            buckets=_doubling(1, 7),
            registry=registry,
        )
        self._points = Histogram(
            "scheduler_framework_extension_point_duration_seconds",
            "Duration of all plugins of an extension point in one attempt.",
            ("extension_point", "status", "profile"),
            buckets=_doubling(0.0001, 12),
            registry=registry,
        )

    def ended(self, attempt: Attempt, result: Result, seconds: float) -> None:
        """`seconds`: since the attempt began."""
        self._attempts.labels(result, attempt.profile).inc()
        self._duration.labels(result, attempt.profile).observe(seconds)
        if result == "scheduled":
            self._tries.observe(attempt.queued.attempts)

    def preempted(self, victims: int) -> None:
        self._preemptions.inc()
        self._victims.observe(victims)

    def pending(self, pods: Mapping[str, int]) -> None:
        """Sets the numbers of pending pods by queue."""
        for queue, count in pods.items():
            self._pending.labels(queue).set(count)

    def extension_points(self, attempt: Attempt, seconds: Mapping[str, float]) -> None:
        """Observes the durations of an attempt. `seconds`: those of each extension point. The label `status` is that of
        the whole attempt."""
        status = {"scheduled": "Success", "unschedulable": "Unschedulable", "error": "Error"}[attempt.result]
        for point, duration in seconds.items():
            self._points.labels(point[0].upper() + point[1:], status, attempt.profile).observe(duration)
