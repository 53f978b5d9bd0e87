"""Workloads of built-in and of custom kinds, and the objects that select their pods."""

from typing import Any

from equipoise.contracts.kubernetes.objects.metadata import ApiValue, Condition, Int64, LabelSelector, Object


class RollingUpdate(ApiValue, frozen=True, kw_only=True):
    """The part of the update strategy of a StatefulSet."""

    partition: Int64 | None = None


class UpdateStrategy(ApiValue, frozen=True, kw_only=True):
    """The update strategy of a StatefulSet, DaemonSet or CloneSet."""

    type: str = ""
    rolling_update: RollingUpdate | None = None
    partition: Int64 | str | None = None
    """The number or percentage of the pods of a CloneSet that keep the previous revision."""

    paused: bool = False
    """Whether a CloneSet is paused."""


class RollingUpdateOfDeployment(ApiValue, frozen=True, kw_only=True):
    max_surge: Int64 | str | None = None
    """The number or percentage of pods that a rollout may add to the desired ones."""


class DeploymentStrategy(ApiValue, frozen=True, kw_only=True):
    type: str = ""
    rolling_update: RollingUpdateOfDeployment | None = None


class WorkloadSpec(ApiValue, frozen=True, kw_only=True):
    replicas: Int64 | None = None
    selector: LabelSelector | None = None
    paused: bool = False
    """Whether a Deployment or Rollout is paused."""

    min_ready_seconds: Int64 = 0
    """The time for which a pod must be ready before it counts as available."""

    strategy: DeploymentStrategy = DeploymentStrategy()
    """The strategy of a Deployment. Those of Rollouts have other fields, which are not read."""

    update_strategy: UpdateStrategy = UpdateStrategy()


class WorkloadStatus(ApiValue, frozen=True, kw_only=True):
    replicas: Int64 = 0
    ready_replicas: Int64 = 0
    updated_replicas: Int64 = 0
    available_replicas: Int64 = 0
    observed_generation: Int64 = 0
    current_revision: str = ""
    update_revision: str = ""
    expected_updated_replicas: Int64 | None = None
    """The number of pods that a CloneSet updates, as its partition defines."""

    pause_conditions: list[dict[str, Any]] = []
    """The reasons why a Rollout waits."""

    abort: bool = False
    """Whether a Rollout was aborted: its pods have the previous template again."""

    conditions: list[Condition] = []


class WorkloadObject(Object, frozen=True, kw_only=True):
    """Deployment, ReplicaSet, StatefulSet, DaemonSet, Job, CronJob, CloneSet, Rollout: their common fields."""

    spec: WorkloadSpec = WorkloadSpec()
    status: WorkloadStatus = WorkloadStatus()


class ScaleSpec(ApiValue, frozen=True, kw_only=True):
    replicas: Int64 = 0
    """The desired replicas. The API server omits 0."""


class ScaleStatus(ApiValue, frozen=True, kw_only=True):
    replicas: Int64 = 0


class Scale(Object, frozen=True, kw_only=True):
    """autoscaling/v1: desired and actual replicas of a workload of any kind."""

    spec: ScaleSpec = ScaleSpec()
    status: ScaleStatus = ScaleStatus()


class CustomStatus(ApiValue, frozen=True, kw_only=True):
    """Status fields that custom workloads have by convention."""

    ready_replicas: Int64 | None = None
    observed_generation: Int64 | None = None


class CustomWorkload(Object, frozen=True, kw_only=True):
    """A workload of a kind without a model here."""

    status: CustomStatus = CustomStatus()


class PodDisruptionBudgetSpec(ApiValue, frozen=True, kw_only=True):
    selector: LabelSelector | None = None
    min_available: Int64 | str | None = None
    """A number, or a percentage such as `50%`."""

    max_unavailable: Int64 | str | None = None


class PodDisruptionBudgetStatus(ApiValue, frozen=True, kw_only=True):
    disruptions_allowed: Int64 = 0
    disrupted_pods: dict[str, str] = {}
    """The time at which an eviction was accepted, by name of the pod."""

    expected_pods: Int64 = 0
    observed_generation: Int64 = 0


class PodDisruptionBudget(Object, frozen=True, kw_only=True):
    spec: PodDisruptionBudgetSpec = PodDisruptionBudgetSpec()
    status: PodDisruptionBudgetStatus = PodDisruptionBudgetStatus()


class KubernetesServiceSpec(ApiValue, frozen=True, kw_only=True):
    selector: dict[str, str] = {}


class KubernetesService(Object, frozen=True, kw_only=True):
    spec: KubernetesServiceSpec = KubernetesServiceSpec()


class ReplicationControllerSpec(ApiValue, frozen=True, kw_only=True):
    selector: dict[str, str] = {}


class ReplicationController(Object, frozen=True, kw_only=True):
    """A ReplicationController. Unlike newer workloads, it has a set of labels as its selector."""

    spec: ReplicationControllerSpec = ReplicationControllerSpec()
