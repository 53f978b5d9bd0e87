"""DynamicResources for pods without resource claims. Pods with resource claims are refused."""

from collections.abc import Mapping

from equipoise.scheduling.framework.cycle_state import CycleState
from equipoise.scheduling.framework.plugin import SKIPPED, PostFiltered, PreFiltered
from equipoise.scheduling.framework.status import PluginStatus, failed, unresolvable, unschedulable
from equipoise.scheduling.model.pod_info import PodInfo
from equipoise.scheduling.model.snapshot import ClusterSnapshot

NOT_SUPPORTED = "the pod has resource claims, which are not supported"
NOT_FOUND = "not found"


class _Examined:
    """A mark that `pre_filter` was called."""

    def clone(self) -> "_Examined":
        return self


_EXAMINED = _Examined()


class DynamicResources:
    name = "DynamicResources"

    def pre_filter(self, state: CycleState, pod: PodInfo, snapshot: ClusterSnapshot) -> PreFiltered:
        state.write(self.name, _EXAMINED)
        return PreFiltered(status=unresolvable(NOT_SUPPORTED)) if pod.pod.spec.resource_claims else SKIPPED

    def post_filter(
        self, state: CycleState, pod: PodInfo, snapshot: ClusterSnapshot, refused: Mapping[int, PluginStatus]
    ) -> PostFiltered:
        """Does nothing, because there are no claims to deallocate. kube-scheduler calls it before DefaultPreemption.

        If another plugin ended PreFilter before this one was called, this method returns an error as in kube-scheduler,
        and DefaultPreemption is not called.
        """
        try:
            state.read(self.name, _Examined)
        except KeyError:
            return PostFiltered(status=failed(NOT_FOUND))
        return PostFiltered(status=unschedulable())
