"""CPU usage of batch pods and of the others by node, from Prometheus."""

from collections.abc import Mapping, Sequence
from typing import Any

import aiohttp
import numpy as np

from equipoise.cli.demo.colocation.figures import UsageByNode
from equipoise.cli.demo.colocation.queue import NAMESPACE
from equipoise.lab.model.trace import Array, Trace


class PodUsage:
    """Usage of pods in cores; nodes in the trace's order."""

    def __init__(self, session: aiohttp.ClientSession, prometheus_url: str, trace: Trace, seconds: float) -> None:
        """`seconds`: usage is the mean over this window."""
        self._session = session
        self._url = f"{prometheus_url}/api/v1"
        self._nodes = [node.name for node in trace.nodes]
        self._window = f"{round(seconds * 1000)}ms"

    async def batch_now(self, moment: float) -> float | None:
        """Usage of all batch pods; None: not measured."""
        rows = await self._get("query", {"query": f"sum({self._rate('=')})", "time": f"{moment:.3f}"})
        return float(rows[0]["value"][1]) if rows else None

    async def between(self, times: Sequence[float]) -> UsageByNode:
        """Usage by node at these Unix times, which are equally far apart."""
        high = await self._by_node("!=", times)
        batch = await self._by_node("=", times)
        # A node without a batch pod has no series of batch pods. Each node has a pod of the DaemonSet.
        return UsageByNode(high_priority=high, batch=np.where(np.isfinite(high), np.nan_to_num(batch), np.nan))

    async def _by_node(self, operator: str, times: Sequence[float]) -> Array:
        step = times[1] - times[0]
        parameters = {
            "query": f"sum by (node) ({self._rate(operator)})",
            "start": f"{times[0]:.3f}",
            "end": f"{times[-1] + step / 2:.3f}",
            "step": f"{step:.3f}",
        }
        found = np.full((len(self._nodes), len(times)), np.nan)
        rows = {name: row for row, name in enumerate(self._nodes)}
        for series in await self._get("query_range", parameters):
            if (row := rows.get(series["metric"].get("node", ""))) is not None:
                for at, value in series["values"]:
                    found[row, round((at - times[0]) / step)] = float(value)
        return found

    def _rate(self, operator: str) -> str:
        return f'rate(pod_cpu_usage_seconds_total{{namespace{operator}"{NAMESPACE}"}}[{self._window}])'

    async def _get(self, path: str, parameters: Mapping[str, str]) -> list[Any]:
        async with self._session.get(f"{self._url}/{path}", params=parameters) as response:
            rows: list[Any] = (await response.json())["data"]["result"]
        return rows
