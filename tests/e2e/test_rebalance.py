"""k8s/base on a real API server: a campaign fills three new nodes, and ends by itself.

Every program runs as its own ServiceAccount and NATS user.
"""

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

import pytest
from cli.programs import run
from deployment.installation import Installation, deployed_cluster, running_installation

from equipoise.cli.demo.manifests import node_documents
from equipoise.testbed.binaries.build import Binaries

pytestmark = [pytest.mark.weekly, pytest.mark.timeout(900)]

NODES, NEW = 10, 3
BUDGET = 8
NAME = "after-new-nodes"
PATIENCE = 240.0

STRICT = {
    "load": {"freshness": {"eviction": "36m", "score": "45m"}},
    "descheduler": {"intentLifetime": "15m"},
    "binder": {"limits": {"evictionsPerCluster": {"max": 1, "maxCount": 1, "window": "3d"}}},
}
"""In the time of the trace: one eviction while the test runs. A busy machine needs some seconds for samples."""


@pytest.fixture(scope="module")
async def installation(
    testbed_binaries: Binaries, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[Installation]:
    async with (
        deployed_cluster(
            testbed_binaries, tmp_path_factory.mktemp("rebalance"), nodes=NODES, settings=STRICT
        ) as deployed,
        running_installation(deployed) as installation,
    ):
        yield installation


async def test_a_campaign_after_new_nodes_ends_by_itself(installation: Installation) -> None:
    """It makes no more moves than its budget, lowers the spread, and is named by everything that it did. Afterwards the
    usual limits hold. Takes seconds: all programs run.
    """
    cluster = installation.deployed.cluster
    await cluster.add_nodes(new_nodes(installation))

    plan = await planned(installation)
    assert plan["refusal"] == ""
    code, output = await command(
        installation, "--apply", "--name", NAME, "--yes", "--moves", str(BUDGET), "--expires", "10m"
    )
    assert code == 0, output

    campaign = await ended(installation)
    moved = [each for each in outcomes(installation) if each["outcome"] == "evicted" and each["campaign"] == NAME]
    others = [each for each in outcomes(installation) if each["outcome"] == "evicted" and each["campaign"] != NAME]
    assert not campaign["ended"].startswith(("stopped", "expired")), campaign
    assert len(moved) == campaign["used"] <= BUDGET
    assert len(moved) >= 2
    assert len(others) <= 1
    assert campaign["spread"] < campaign["expected"][0]["spread"]
    assert campaign["started_by"]
    async with cluster.api() as api:
        events = (await api.request("GET", "/apis/events.k8s.io/v1/events"))["items"]
    assert sum(f'in campaign "{NAME}"' in event.get("note", "") for event in events) >= len(moved)


def new_nodes(installation: Installation) -> list[dict[str, Any]]:
    """Nodes like the others, without a pod."""
    nodes = node_documents(installation.deployed.trace)[:NEW]
    text = json.dumps(nodes)
    for number, node in enumerate(nodes):
        text = text.replace(f'"{node["metadata"]["name"]}"', f'"new-{number}"')
    found: list[dict[str, Any]] = json.loads(text)
    return found


async def command(installation: Installation, *arguments: str) -> tuple[int, str]:
    access = installation.machine.tap_access()
    return await run("rebalance", *arguments, *access, KUBECONFIG=str(installation.deployed.cluster.kubeconfig))


async def shown(installation: Installation, *arguments: str) -> dict[str, Any]:
    code, output = await command(installation, *arguments, "-o", "json")
    assert code == 0, output
    found: dict[str, Any] = json.loads(output[output.index("{") :])
    return found


async def planned(installation: Installation) -> dict[str, Any]:
    """The first plan that fills the new nodes."""
    async with asyncio.timeout(PATIENCE):
        while True:
            prepared = await shown(installation, "--plan", "--moves", str(BUDGET))
            if prepared["plan"]["nodes"] == NODES + NEW and prepared["plan"]["moves"] >= 2 and not prepared["refusal"]:
                return prepared
            await asyncio.sleep(1.0)


async def ended(installation: Installation) -> dict[str, Any]:
    async with asyncio.timeout(PATIENCE):
        while True:
            campaign: dict[str, Any] = (await shown(installation, "--status"))["campaign"]
            if campaign["ended_at"]:
                return campaign
            await asyncio.sleep(1.0)


def outcomes(installation: Installation) -> list[dict[str, Any]]:
    lines = installation.messages()
    return [line["message"] for line in lines if line["subject"].startswith("equipoise.eviction.outcome.")]
