"""CPU load of the nodes from Prometheus: measures the result of a run independently of Equipoise."""

import asyncio
from collections.abc import Mapping

import aiohttp

from equipoise.lab.model.trace import Trace

TIMEOUT = 60.0
"""Seconds within which every node must have samples."""


def trace_cores(trace: Trace) -> dict[str, float]:
    """The cores of each node."""
    return {node.name: node.cpu_milli / 1000 for node in trace.nodes}


class NodeLoads:
    """CPU load of the nodes in percent of their cores, in the order of `cores`."""

    def __init__(
        self, session: aiohttp.ClientSession, prometheus_url: str, cores: Mapping[str, float], seconds: float
    ) -> None:
        """`cores`: the number of cores of each node. `seconds`: a load is the mean over this window."""
        self._session = session
        self._url = f"{prometheus_url}/api/v1/query"
        self._cores = dict(cores)
        # rate() divides by the whole window, so late scrapes would make busy nodes appear idle. This query divides by
        # the time between the newest sample now and the newest one before the window, and is NaN if both are the same.
        counter = "node_cpu_usage_seconds_total"
        before = f"{counter} offset {round(seconds * 1000)}ms"
        self._query = f"({counter} - {before}) / (timestamp({counter}) - timestamp({before})) >= 0"

    async def at(self, moment: float | None = None) -> dict[str, float]:
        """The loads at a Unix time, or now; without the nodes that have no sample in the window."""
        parameters = {"query": self._query} | ({"time": f"{moment:.3f}"} if moment is not None else {})
        async with self._session.get(self._url, params=parameters) as response:
            body = await response.json()
        used = {row["metric"]["node"]: float(row["value"][1]) for row in body["data"]["result"]}
        return {name: used[name] / cores * 100 for name, cores in self._cores.items() if name in used}

    async def of_all(self, moment: float | None = None, *, timeout: float = TIMEOUT) -> dict[str, float]:
        """The load of every node at `moment`, or later, as soon as all are known. Raises TimeoutError with the unknown
        nodes."""
        deadline = asyncio.get_running_loop().time() + timeout
        loads = await self.at(moment)
        while missing := self._cores.keys() - loads.keys():
            if asyncio.get_running_loop().time() > deadline:
                names = ", ".join(sorted(missing))
                raise TimeoutError(f"no usage in Prometheus within {timeout:g} s for nodes {names}")
            await asyncio.sleep(0.5)
            loads = await self.at()
        return loads
