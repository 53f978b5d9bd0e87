"""PrioritySort: the queue is ordered by priority, and then by the time at which pods were added."""

from equipoise.scheduling.model.pod_info import PodInfo


class PrioritySort:
    name = "PrioritySort"

    def sort_key(self, pod: PodInfo, added_at: float) -> tuple[float, ...]:
        return -pod.priority, added_at
