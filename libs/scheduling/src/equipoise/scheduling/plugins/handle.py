"""The state of the scheduler that plugins receive when they are created. Its values may change later."""

from collections.abc import Callable, Sequence

import msgspec

from equipoise.contracts.kubernetes.objects.metadata import LabelSelector
from equipoise.contracts.kubernetes.objects.workload import PodDisruptionBudget
from equipoise.scheduling.framework.framework import Framework
from equipoise.scheduling.framework.nominated import Nominated
from equipoise.scheduling.framework.waiting_pods import WaitingPods
from equipoise.scheduling.model.pod_info import PodInfo
from equipoise.scheduling.model.volumes import Volumes


def _no_framework() -> Framework:
    raise RuntimeError("the framework exists once all of its plugins do: see build_framework")


class Handle(msgspec.Struct, frozen=True, kw_only=True):
    """The state of the scheduler for plugins. The defaults fit a cluster without such objects."""

    volumes: Volumes = Volumes()
    nominated: Nominated = msgspec.field(default_factory=Nominated)
    budgets: Callable[[], Sequence[PodDisruptionBudget]] = tuple
    """Returns all PodDisruptionBudgets of the cluster."""

    may_preempt: Callable[[PodInfo], bool] = lambda pod: True
    """Whether a pod may be the victim of a preemption. kube-scheduler considers only the priority."""

    default_selector: Callable[[PodInfo], LabelSelector | None] = lambda pod: None
    """Returns the selector of the pods of the same Services and workload; None if the pod has neither."""

    waiting_pods: WaitingPods = msgspec.field(default_factory=WaitingPods)
    """The pods that wait for Permit plugins, which may allow or reject them."""

    random: Callable[[], float] = lambda: 0.0
    """Returns a random number from 0 to 1, excluding 1."""

    framework: Callable[[], Framework] = _no_framework
    """Returns the framework that contains the plugin. `build_framework` sets it."""
