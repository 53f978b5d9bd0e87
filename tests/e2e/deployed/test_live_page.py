"""k8s/live-page, unchanged: its program, with its ServiceAccount and as the NATS user `tap`."""

import asyncio
import json
from typing import Any

import pytest
from aiohttp import ClientSession
from deployment.installation import NODES, Installation
from deployment.processes import PAGE_PORT

pytestmark = pytest.mark.timeout(600)

PATIENCE = 60.0


async def test_the_page_shows_nodes_plan_and_limits(installation: Installation) -> None:
    """Its account may read the ledger, and the Lease by which the page knows that the plan is of its cluster."""
    await installation.machine.ready("live-page")
    measured: set[str] = set()
    shown: dict[str, Any] = {"plan": {}, "limits": {}, "connection": {}}

    def complete() -> bool:
        return (
            len(measured) == NODES
            and shown["plan"].get("considered") == NODES
            and shown["limits"].get("evictions") == "allowed"
            and shown["connection"]["cluster"].startswith("cluster: this pod's cluster https://127.0.0.1:")
        )

    url = installation.machine.url(PAGE_PORT)
    try:
        async with (
            asyncio.timeout(PATIENCE),
            ClientSession(read_bufsize=2**22) as http,
            http.get(f"{url}/events") as response,
        ):
            while not complete():
                line = await response.content.readline()
                if line.startswith(b"data: "):
                    changes = json.loads(line.removeprefix(b"data: "))
                    measured |= {row[0] for row in changes.get("nodes", []) if row[1] is not None}
                    shown |= changes
    except TimeoutError:
        parts = {name: shown[name] for name in ("plan", "limits", "connection")}
        raise AssertionError(f"{len(measured)} nodes measured, {parts}") from None
