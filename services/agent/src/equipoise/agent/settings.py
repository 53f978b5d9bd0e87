"""The section `agent` of the configuration: what the agent limits on its node, and when it evicts."""

from typing import Annotated

from msgspec import Meta

from equipoise.agent.decisions.evictions import CpuEviction, MemoryEviction
from equipoise.agent.decisions.suppression import CpuSuppression
from equipoise.contracts.configuration.settings import Section


class AgentSettings(Section, frozen=True, kw_only=True):
    """The section `agent`. It has an effect only where the agent is deployed."""

    health: str = "0.0.0.0:8087"
    """Address of /healthz, /readyz, /metrics and /version."""

    node: str = ""
    """The name of the node. Empty: the environment variable NODE_NAME."""

    cgroup_root: str = "/sys/fs/cgroup"
    """The directory at which the cgroups of the node are mounted, writable."""

    cgroup_parent: str = ""
    """The group of all pods below the root. Empty: the group that the kubelet creates by default, or else the one that
    kind creates."""

    period: Annotated[float, Meta(ge=0.1, le=60)] = 1.0
    """Seconds between two rounds. Not divided by time compression."""

    suppression: CpuSuppression = CpuSuppression()

    evict: bool = False
    """Evict pods. False: the evictions are only logged and counted."""

    memory_eviction: MemoryEviction = MemoryEviction()
    cpu_eviction: CpuEviction = CpuEviction()
