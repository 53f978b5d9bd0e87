"""The result of a plugin, with the codes of kube-scheduler 1.37."""

from enum import IntEnum

import msgspec


class Code(IntEnum):
    """The codes of pkg/scheduler/framework (staging kube-scheduler/framework) of Kubernetes 1.37."""

    SUCCESS = 0
    ERROR = 1
    """The plugin failed. The attempt ends, and the pod is tried again."""

    UNSCHEDULABLE = 2
    """The pod cannot run on this node now. Preemption may help."""

    UNSCHEDULABLE_AND_UNRESOLVABLE = 3
    """The pod cannot run on this node, regardless of which pods are removed."""

    WAIT = 4
    """The result of Permit if another plugin or program decides later."""

    SKIP = 5
    """The plugin is skipped. After PreFilter, its Filter is not called; after PreScore, its Score is not called; after
    Bind, another plugin binds the pod."""

    PENDING = 6
    """Something outside of the scheduler is required first, for example a device."""


REJECTED = (Code.UNSCHEDULABLE, Code.UNSCHEDULABLE_AND_UNRESOLVABLE, Code.PENDING)


class PluginStatus(msgspec.Struct, frozen=True, kw_only=True):
    """The decision of a plugin, and its reasons."""

    code: Code = Code.SUCCESS
    reasons: tuple[str, ...] = ()
    plugin: str = ""
    """The name of the plugin, which the framework sets."""

    @property
    def is_success(self) -> bool:
        return self.code == Code.SUCCESS

    @property
    def is_rejected(self) -> bool:
        """Whether the pod does not fit although nothing failed."""
        return self.code in REJECTED


SUCCESS = PluginStatus()
SKIP = PluginStatus(code=Code.SKIP)


def unschedulable(*reasons: str) -> PluginStatus:
    return PluginStatus(code=Code.UNSCHEDULABLE, reasons=reasons)


def unresolvable(*reasons: str) -> PluginStatus:
    return PluginStatus(code=Code.UNSCHEDULABLE_AND_UNRESOLVABLE, reasons=reasons)


def failed(reason: str) -> PluginStatus:
    return PluginStatus(code=Code.ERROR, reasons=(reason,))
