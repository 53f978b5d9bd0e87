"""What plugins are given when they are made: the state of the scheduler, as functions and values that may change."""

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
    """What a plugin is given. The defaults are those of a cluster without such objects."""

    volumes: Volumes = Volumes()
    nominated: Nominated = msgspec.field(default_factory=Nominated)
    budgets: Callable[[], Sequence[PodDisruptionBudget]] = tuple
    """All of the cluster."""

    may_preempt: Callable[[PodInfo], bool] = lambda pod: True
    """Whether a pod may be the victim of a preemption; kube-scheduler asks only for its priority."""

    default_selector: Callable[[PodInfo], LabelSelector | None] = lambda pod: None
    """Selects the pods of the same Services and workload; None: the pod has neither."""

    waiting_pods: WaitingPods = msgspec.field(default_factory=WaitingPods)
    """Pods that Permit plugins let wait: to allow or reject them."""

    random: Callable[[], float] = lambda: 0.0
    """0 ≤ … < 1."""

    framework: Callable[[], Framework] = _no_framework
    """The one that the plugin is part of. `build_framework` sets it."""
