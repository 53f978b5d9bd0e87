"""The parts of a demo with co-location: the reclaimer with its account, a queue of batch pods, and their figures."""

from collections import Counter
from dataclasses import dataclass

import aiohttp
import numpy as np

from equipoise.cli.demo.accounts import account_documents, account_variables
from equipoise.cli.demo.colocation.figures import ColocationResult, colocation_result, usage_as_placed
from equipoise.cli.demo.colocation.queue import NAMESPACE as BATCH_NAMESPACE
from equipoise.cli.demo.colocation.queue import POD_CPU_MILLI, queue_documents
from equipoise.cli.demo.colocation.usage import PodUsage
from equipoise.contracts.bus.subjects import ServiceName
from equipoise.lab.model.trace import Array, Trace
from equipoise.testbed.api import Api
from equipoise.testbed.cluster import Cluster

HOURS = 6
"""Hours of the trace that each batch pod runs."""

ACCOUNT_FILES = ("colocation/reclaimer.yaml", "colocation/reclaimer-fence.yaml", "base/fence.yaml")

_HOUR = 3_600.0


@dataclass
class Colocation:
    """The reclaimer and the queue of batch pods of one run."""

    cluster: Cluster
    api: Api
    session: aiohttp.ClientSession
    trace: Trace
    step_seconds: int
    epoch: int
    pod_hours: float

    def __post_init__(self) -> None:
        self.usage = PodUsage(self.session, self.cluster.prometheus_url, self.trace, 2 * self.step_seconds)
        self._step_hours = self.trace.seconds_per_step / _HOUR
        self._before: Array = np.empty((len(self.trace.nodes), self.trace.steps))

    async def remember_placement(self) -> None:
        """Reads where the stock scheduler placed the pods."""
        pods = (await self.api.request("GET", "/api/v1/pods?resourceVersion=0"))["items"]
        placed = ((pod["metadata"]["labels"].get("app", ""), pod["spec"].get("nodeName", "")) for pod in pods)
        self._before = usage_as_placed(self.trace, placed)

    async def add_account(self) -> dict[ServiceName, dict[str, str]]:
        """Creates the account with the policies that restrict it. The namespace must exist.

        Returns the environment variables of the reclaimer.
        """
        await self.api.apply(account_documents(ACCOUNT_FILES, "--colocation"))
        return {"reclaimer": await account_variables(self.cluster, "reclaimer")}

    async def start_queue(self) -> None:
        pod_seconds = self.pod_hours / self._step_hours * self.step_seconds
        await self.api.apply(queue_documents(len(self.trace.nodes), pod_seconds))

    def description(self) -> str:
        return (
            f"a queue of batch pods never ends: each requests {POD_CPU_MILLI / 1_000:g} batch cores and runs "
            f"{self.pod_hours:g} hours. The reclaimer writes what nodes offer, as its own ServiceAccount, which an "
            "admission policy restricts to that"
        )

    async def progress(self, moment: float) -> str:
        cores = await self.usage.batch_now(moment)
        return "" if cores is None else f"batch pods use {cores:.0f} cores"

    async def result(self, since: float, until: float, *, limit: float, evictions: int) -> ColocationResult:
        """The result of the time from `since` to `until`, in Unix seconds.

        `limit`: percent of a node's cores. `evictions`: the number of evicted batch pods.
        """
        # The first measurement is of the two steps after `since`.
        first = since + 2 * self.step_seconds
        times = [first + index * self.step_seconds for index in range(max(2, int((until - first) / self.step_seconds)))]
        steps = [int((at - self.epoch) // self.step_seconds) % self.trace.steps for at in times]
        pods = (await self.api.request("GET", f"/api/v1/namespaces/{BATCH_NAMESPACE}/pods?resourceVersion=0"))["items"]
        phases = Counter(pod["status"].get("phase") for pod in pods)
        return colocation_result(
            await self.usage.between(times),
            self._before[:, steps],
            cores=np.array([node.cpu_milli / 1_000 for node in self.trace.nodes]),
            limit=limit,
            step_hours=self._step_hours,
            pods_finished=phases["Succeeded"],
            evictions=evictions,
        )
