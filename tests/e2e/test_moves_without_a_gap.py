"""k8s/base with k8s/surge on a real API server: the whole loop moves single replicas that no eviction can move.

Every program runs as its own ServiceAccount and NATS user.
"""

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

import pytest
from cli.programs import run
from deployment.base import NAMESPACE
from deployment.installation import (
    Installation,
    MovesWithoutGap,
    constant_trace,
    deployed_cluster,
    running_installation,
)

from equipoise.cli.demo.figures import read_audit_log
from equipoise.cli.demo.surge.workloads import wanted_endpoints, with_single_replicas
from equipoise.contracts.bus.subjects import SERVICES
from equipoise.contracts.eviction.detached import DETACHED_HASH
from equipoise.runtime.process.clock import SystemClock
from equipoise.testbed.audit import written_slices
from equipoise.testbed.binaries.build import Binaries
from equipoise.testbed.ready_endpoints import ready_endpoints

pytestmark = [pytest.mark.weekly, pytest.mark.timeout(600)]

NODES = 8
START_SECONDS = 10
"""Long enough to look at a detached pod, and to see an eviction before its replacement is ready."""

PATIENCE = 120.0


@pytest.fixture(scope="module")
async def installation(
    testbed_binaries: Binaries, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[Installation]:
    surge = MovesWithoutGap(trace=with_single_replicas(constant_trace(NODES)), start_seconds=START_SECONDS)
    async with (
        deployed_cluster(testbed_binaries, tmp_path_factory.mktemp("surge"), surge=surge) as deployed,
        running_installation(deployed) as installation,
    ):
        yield installation


class Commands:
    """The commands of a user, with a kubeconfig and the access to NATS that `equipoise tap` has."""

    def __init__(self, installation: Installation) -> None:
        self._environment = {"KUBECONFIG": str(installation.deployed.cluster.kubeconfig)}
        self._bus = installation.machine.tap_access()
        self._prometheus = ("--prometheus", installation.deployed.cluster.prometheus_url)

    async def plan(self) -> dict[str, Any]:
        return await self._json("plan", *self._bus)

    async def pods(self) -> dict[str, dict[str, Any]]:
        listed = await self._json("pods", *self._prometheus)
        return {pod["pod"]: pod for pod in listed["pods"]}

    async def explain(self, pod: str) -> dict[str, Any]:
        return await self._json("explain", "eviction", pod, *self._bus)

    async def _json(self, *arguments: str) -> dict[str, Any]:
        code, output = await run(*arguments, "-o", "json", **self._environment)
        assert code == 0, output
        found: dict[str, Any] = json.loads(output[output.index("{") :])
        return found

    async def text(self, *arguments: str) -> str:
        code, output = await run(*arguments, **self._environment)
        assert code == 0, output
        return output


async def test_the_whole_loop_moves_a_single_replica_without_a_gap(installation: Installation) -> None:
    """From a hot node, behind a budget with `maxUnavailable: 0`. The plan, the list of pods, the outcome on the bus and
    its explanation agree. Takes seconds: pods are ready 10 s after their start; all programs run.
    """
    cluster, commands = installation.deployed.cluster, Commands(installation)
    wanted = wanted_endpoints(installation.deployed.trace)
    single = {name for name, replicas in wanted.items() if replicas == 1}

    await commands.text("pause")
    planned = await planned_without_gap(commands)
    assert {move["without_gap"] for move in planned.values() if workload_of(move) in single} == {True}
    await commands.text("resume", "--yes")

    pod, node, workload = await detached_pod(installation)
    since = SystemClock().now()
    assert workload in single
    listed = (await commands.pods())[pod]
    assert listed["state"].startswith("detached")
    assert listed["node"] == node
    assert listed["workload"] == f"Deployment/{workload}"

    outcome = await outcome_of(installation, pod, since)
    assert (outcome["outcome"], outcome["node"], outcome["detail"]) == ("evicted", node, "moved without a gap")
    explained = (await commands.explain(pod))["evictions"][-1]
    assert explained["node"] == node
    assert explained["outcome"]["intent_id"] == outcome["intent_id"]
    assert explained["outcome"]["detail"] == outcome["detail"]

    events = read_audit_log(cluster.audit_log)
    moved = [each for each in events.evictions if f"{each.namespace}/{each.pod}" == pod]
    assert [each.without_gap for each in moved] == [True]
    endpoints = ready_endpoints(written_slices(cluster.audit_log), wanted, SystemClock().now())
    assert single <= endpoints.complete
    assert [each for each in endpoints.shortages if each.service in single] == []
    assert await nobody_was_refused(installation) == []


def workload_of(move: dict[str, Any]) -> str:
    return f"{move['workload']['namespace']}/{move['workload']['name']}"


async def planned_without_gap(commands: Commands) -> dict[str, dict[str, Any]]:
    """The moves of the first plan that has one without a gap, by pod."""
    async with asyncio.timeout(PATIENCE):
        while True:
            moves = {f"{each['namespace']}/{each['pod']}": each for each in (await commands.plan())["moves"]}
            if any(move["without_gap"] for move in moves.values()):
                return moves
            await asyncio.sleep(0.5)


async def detached_pod(installation: Installation) -> tuple[str, str, str]:
    """The first pod that is detached, with its node and `namespace/name` of its workload."""
    async with asyncio.timeout(PATIENCE), installation.deployed.cluster.api() as api:
        while True:
            for pod in (await api.request("GET", "/api/v1/pods?resourceVersion=0"))["items"]:
                metadata = pod["metadata"]
                if DETACHED_HASH in metadata.get("annotations", {}) and not metadata.get("ownerReferences"):
                    name = f"{metadata['namespace']}/{metadata['name']}"
                    return name, pod["spec"]["nodeName"], f"{metadata['namespace']}/{metadata['labels']['app']}"
            await asyncio.sleep(0.2)


async def outcome_of(installation: Installation, pod: str, since: float) -> dict[str, Any]:
    """The first outcome of the pod on the bus after `since`. An earlier intent may have failed."""
    subject = f"equipoise.eviction.outcome.{pod.replace('/', '.')}"

    def settled() -> list[dict[str, Any]]:
        messages = [line["message"] for line in installation.messages() if line["subject"] == subject]
        return [message for message in messages if message["settled_at"] > since]

    await installation.until(lambda: bool(settled()), PATIENCE, f"the move of {pod} ends")
    return settled()[0]


async def nobody_was_refused(installation: Installation) -> list[str]:
    """The requests of our accounts that the API server forbade."""
    own = {f"system:serviceaccount:{NAMESPACE}:equipoise-{name}" for name in SERVICES}
    lines = installation.deployed.cluster.audit_log.read_text().splitlines()
    events = [json.loads(line) for line in lines if '"code":403' in line]
    return [event["requestURI"] for event in events if event["user"]["username"] in own]
