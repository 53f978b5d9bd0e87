"""How much of a node may be reclaimed: the cluster's strategy, and what pools and nodes override."""

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from equipoise.contracts.configuration.duration import Duration
from equipoise.contracts.configuration.settings import Percent, Section

CpuPolicy = Literal["usage", "maxUsageRequest"]
MemoryPolicy = Literal["usage", "request", "maxUsageRequest"]


class ReclaimStrategy(Section, frozen=True, kw_only=True):
    """The strategy of a node. Percentages are of its capacity."""

    enabled: bool = True
    """Whether anything of the node is offered."""

    cpu_threshold: Percent = 65.0
    """Usage of high-priority pods, of the system and of all mid and batch pods together should stay below this."""

    memory_threshold: Percent = 65.0

    cpu_policy: CpuPolicy = "usage"
    """What counts of a high-priority pod: its usage, or the higher of usage and request."""

    memory_policy: MemoryPolicy = "usage"
    """The same as `cpuPolicy`, or the pod's request."""

    batch_cpu_cap: Percent | None = None
    """Maximum of batch resources; null: no maximum."""

    batch_memory_cap: Percent | None = None
    mid_cpu_cap: Percent = 100.0
    mid_memory_cap: Percent = 100.0


class StrategyOverride(Section, frozen=True, kw_only=True):
    """The fields that replace those of the strategy; null replaces nothing."""

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


class ForecastSettings(Section, frozen=True, kw_only=True):
    """How long the offered resources must be available."""

    batch_hours: Annotated[int, Meta(ge=1, le=24)] = 6
    """The expected lifetime of batch pods."""

    margin: Percent = 5.0
    """Usage may exceed that of the typical day by this share of the node's capacity."""

    day: Duration = Duration(86_400)
    """Length of the typical day, as `collector.profile.day`. An hour is a 24th of it."""


_RATIO_LABELS = {
    "cpu_threshold": "node.koordinator.sh/cpu-reclaim-ratio",
    "memory_threshold": "node.koordinator.sh/memory-reclaim-ratio",
}
"""Labels of a node that set its thresholds as shares (0..1) of its capacity. Koordinator uses the same labels."""


def strategy_of(
    name: str,
    labels: Mapping[str, str],
    strategy: ReclaimStrategy,
    pools: Sequence[ReclaimPool],
    nodes: Mapping[str, StrategyOverride],
) -> ReclaimStrategy:
    """The cluster's strategy, changed by the node's pool, then by its entry in `nodes`, then by its labels."""
    pool = next((pool for pool in pools if pool.match_labels.items() <= labels.items()), None)
    changes: dict[str, Any] = {}
    for override in (pool, nodes.get(name)):
        if override is not None:
            values = ((field, getattr(override, field)) for field in StrategyOverride.__struct_fields__)
            changes |= {field: value for field, value in values if value is not None}
    for field, label in _RATIO_LABELS.items():
        if (text := labels.get(label)) is not None and (percent := _percent(text)) is not None:
            changes[field] = percent
    return msgspec.structs.replace(strategy, **changes) if changes else strategy


def _percent(share: str) -> float | None:
    """The percentage of a share from 0 to 1; None for any other text."""
    try:
        percent = float(share) * 100
    except ValueError:
        return None
    return percent if 0.0 <= percent <= 100.0 else None
