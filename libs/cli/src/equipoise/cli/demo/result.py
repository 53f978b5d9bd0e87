"""The result of a run: the JSON object on its last line, and the table for people."""

from collections.abc import Mapping
from typing import Any

import msgspec
from rich.table import Table

from equipoise.cli.demo import figures


class DemoResult(msgspec.Struct, frozen=True, kw_only=True):
    """Spread and std are points of percent of node CPU load."""

    nodes: int
    pods: int
    workloads: int
    time_factor: float
    limits: dict[str, Any]
    spread_before: float
    spread_after: float
    std_before: float
    std_after: float
    burst_max_share: float
    evictions: int
    pods_moved_share: float
    same_node_returns: int
    outcomes: dict[str, int]
    rejected: int
    limit_violations: int
    protected_evictions: int
    seconds: float
    """Of the whole run, without building the testbed."""

    def encoded(self) -> str:
        """One JSON object on one line."""
        return msgspec.json.encode(self).decode()


def load_table(before: Mapping[str, float], after: Mapping[str, float]) -> Table:
    """Loads in percent of each node's cores."""
    table = Table(title="CPU load of the nodes at the same time of day, in percent of their cores")
    for column in ("", "before", "after"):
        table.add_column(column, justify="left" if not column else "right")
    for name, figure in (
        ("hottest node", lambda loads: max(loads.values())),
        ("idlest node", lambda loads: min(loads.values())),
        ("spread (max − min)", figures.spread),
        ("standard deviation", figures.deviation),
    ):
        table.add_row(name, f"{figure(before):.1f}", f"{figure(after):.1f}")
    return table
