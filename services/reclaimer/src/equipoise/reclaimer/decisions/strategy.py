"""How much of a node may be reclaimed: the cluster's strategy, and what pools and nodes override."""

from typing import Literal

from equipoise.contracts.configuration.settings import Percent, Section

CpuPolicy = Literal["usage", "maxUsageRequest"]
MemoryPolicy = Literal["usage", "request", "maxUsageRequest"]


class ReclaimStrategy(Section, frozen=True, kw_only=True):
    """Of a node. Percentages are of its capacity."""

    enabled: bool = True
    """False: nothing of it is offered."""

    cpu_threshold: Percent = 65.0
    """Usage of high-priority pods, of the system and of all mid and batch pods together should stay below this."""

    memory_threshold: Percent = 65.0

    cpu_policy: CpuPolicy = "usage"
    """What counts of a high-priority pod: its usage, or the higher of usage and request."""

    memory_policy: MemoryPolicy = "usage"
    """As `cpuPolicy`; `request`: its request."""

    batch_cpu_cap: Percent | None = None
    """Maximum of batch resources; null: no maximum."""

    batch_memory_cap: Percent | None = None
    mid_cpu_cap: Percent = 100.0
    mid_memory_cap: Percent = 100.0


class StrategyOverride(Section, frozen=True, kw_only=True):
    """The fields of the strategy that are different; null: not different."""

    enabled: bool | None = None
    cpu_threshold: Percent | None = None
    memory_threshold: Percent | None = None
    cpu_policy: CpuPolicy | None = None
    memory_policy: MemoryPolicy | None = None
    batch_cpu_cap: Percent | None = None
    batch_memory_cap: Percent | None = None
    mid_cpu_cap: Percent | None = None
    mid_memory_cap: Percent | None = None


class ReclaimPool(StrategyOverride, frozen=True, kw_only=True):
    """Nodes with these labels. A node belongs to the first pool that matches."""

    name: str
    match_labels: dict[str, str]

    def __post_init__(self) -> None:
        if not self.match_labels:
            raise ValueError("matchLabels must have at least one label")
