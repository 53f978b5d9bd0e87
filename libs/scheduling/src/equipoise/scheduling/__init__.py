"""kube-scheduler as a library: its framework, its default plugins and its preemption, on pods and nodes in memory."""

from equipoise.scheduling.cluster_scheduler import ClusterScheduler, read_pod
from equipoise.scheduling.configuration import read_configuration
from equipoise.scheduling.model.pod_info import PodInfo
from equipoise.scheduling.scheduler import Decision

__all__ = ["ClusterScheduler", "Decision", "PodInfo", "read_configuration", "read_pod"]
