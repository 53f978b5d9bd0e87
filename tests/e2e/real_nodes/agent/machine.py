"""Runs steps on a cluster whose second node is a virtual machine."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Any

from deployment.base import ROOT
from e2e.real_nodes.installation import machine_load, note, print_result
from e2e.real_nodes.virtual_node import POLL_SECONDS

from equipoise.testbed.api import Api
from equipoise.testbed.real_nodes.cluster import RealCluster, prepare
from equipoise.testbed.real_nodes.virtual_machine.systems import MachineSystem

Run = Callable[[RealCluster, Api], Awaitable[dict[str, Any]]]


def run_on_virtual_machine(system: MachineSystem, run: Run) -> None:
    """Prints what was seen as a JSON document."""
    asyncio.run(_in_new_cluster(system, run))


async def _in_new_cluster(system: MachineSystem, run: Run) -> None:
    real, load, began = RealCluster(prepare(ROOT, machine=system), 1), machine_load(), time.monotonic()
    async with real, real.cluster.api() as api:
        booted = round(time.monotonic() - began)
        note(f"{real.virtual_node} is ready after {booted} s")
        info = (await api.request("GET", f"/api/v1/nodes/{real.virtual_node}"))["status"]["nodeInfo"]
        async with asyncio.TaskGroup() as group:
            checks = group.create_task(_check_programs(real))
            result = await run(real, api)
            checks.cancel()
        print_result(
            {
                "node": {key: info[key] for key in ("kernelVersion", "kubeletVersion", "containerRuntimeVersion")},
                "boot_seconds": booted,
                "machine_load": [load, machine_load()],
                **result,
            }
        )


async def _check_programs(real: RealCluster) -> None:
    """Raises ClusterError as soon as a component or the virtual machine has ended."""
    while True:
        real.check()
        await asyncio.sleep(POLL_SECONDS)
