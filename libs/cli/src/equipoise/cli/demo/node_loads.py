"""How loaded the nodes are by what Prometheus has of them, asked apart from Equipoise: it is judged by this."""

import asyncio

import aiohttp

from equipoise.cli.demo.trace import Trace

PATIENCE = 60.0
"""Seconds in which every node must be measured again, whatever held up the scrapes."""


class NodeLoads:
    """CPU load of the nodes in percent of their cores, in the trace's order."""

    def __init__(self, session: aiohttp.ClientSession, prometheus_url: str, trace: Trace, seconds: float) -> None:
        """`seconds`: over so many a load is a mean."""
        self._session = session
        self._url = f"{prometheus_url}/api/v1/query"
        self._cores = {node.name: node.cpu_milli / 1000 for node in trace.nodes}
        # rate() divides by all of a window: scrapes that are late make busy nodes idle. This is what lies between the
        # last sample of the window and the last one before it, and not a number when those are the same.
        counter = "node_cpu_usage_seconds_total"
        before = f"{counter} offset {round(seconds * 1000)}ms"
        self._query = f"({counter} - {before}) / (timestamp({counter}) - timestamp({before})) >= 0"

    async def at(self, moment: float | None = None) -> dict[str, float]:
        """At a Unix time, or now; without the nodes of which no sample came in the window."""
        parameters = {"query": self._query} | ({"time": f"{moment:.3f}"} if moment is not None else {})
        async with self._session.get(self._url, params=parameters) as response:
            answer = await response.json()
        cores = {row["metric"]["node"]: float(row["value"][1]) for row in answer["data"]["result"]}
        return {name: cores[name] / size * 100 for name, size in self._cores.items() if name in cores}

    async def of_all(self, moment: float | None = None, *, patience: float = PATIENCE) -> dict[str, float]:
        """Of every node, at that moment or else as soon as all are known. Raises TimeoutError that names the others."""
        deadline = asyncio.get_running_loop().time() + patience
        loads = await self.at(moment)
        while missing := self._cores.keys() - loads.keys():
            if asyncio.get_running_loop().time() > deadline:
                names = ", ".join(sorted(missing))
                raise TimeoutError(f"Prometheus has had no usage of these nodes for {patience:g} s: {names}")
            await asyncio.sleep(0.5)
            loads = await self.at()
        return loads
