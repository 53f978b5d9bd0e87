"""The deployed services with k8s/hints and the unconfigured kube-scheduler; every service is killed during evictions.

Weekly. In every run of the tests, `tests/e2e/killed` kills what computes and writes hints, on a smaller cluster.
"""

import json
from collections.abc import AsyncIterator, Iterator
from datetime import datetime
from typing import Any

import pytest
from deployment.base import NAMESPACE
from deployment.installation import NODES, Installation, deployed_cluster, running_installation
from deployment.restarts import BURST_PODS, KILLED, LEVEL, RunResult, kill_each_service

from equipoise.contracts.bus.subjects import SERVICES
from equipoise.contracts.hints.policy import HINTED
from equipoise.testbed.binaries.build import Binaries

pytestmark = [pytest.mark.weekly, pytest.mark.timeout(900)]

ANNOTATOR = f"system:serviceaccount:{NAMESPACE}:equipoise-annotator"


@pytest.fixture(scope="module")
async def installation(
    mutating_policies: None, testbed_binaries: Binaries, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[Installation]:
    async with (
        deployed_cluster(testbed_binaries, tmp_path_factory.mktemp("hinted"), "hints") as deployed,
        running_installation(deployed) as installation,
    ):
        yield installation


@pytest.fixture(scope="module")
async def result(installation: Installation) -> RunResult:
    return await kill_each_service(installation)


async def test_hints_alone_level_the_load(result: RunResult) -> None:
    """With the limits of evictions, and as few returns, as with the extender; all services were killed meanwhile."""
    assert set(KILLED) == set(SERVICES)
    assert result.spread_before > 50
    assert result.spread_after <= LEVEL
    assert result.std_after <= result.std_before / 3
    assert result.moved_share <= 0.20
    assert result.same_node_returns <= max(1, 0.02 * len(result.evictions))
    assert (0, 0) == (result.limit_violations, result.protected_evictions)


async def test_a_burst_of_new_pods_is_spread(result: RunResult) -> None:
    """No node gets more than two and a half times its share."""
    assert BURST_PODS == result.burst.total()
    assert max(result.burst.values()) <= 2.5 * BURST_PODS / NODES


async def test_no_pod_is_refused_or_remains_unscheduled(installation: Installation, result: RunResult) -> None:
    """Except that of NATS: its volume is not provisioned here."""
    pods = await installation.deployed.cluster.request("GET", "/api/v1/pods")

    assert ["nats-0"] == [pod["metadata"]["name"] for pod in pods["items"] if "nodeName" not in pod["spec"]]
    assert [] == [each for each in requests(installation, "pods", "create") if each["responseStatus"]["code"] >= 400]


async def test_replacements_have_hints(installation: Installation, result: RunResult) -> None:
    """At least nine in ten of the pods that run in the place of evicted ones."""
    evicted = {(eviction.namespace, eviction.pod.rsplit("-", 2)[0]) for eviction in result.evictions}
    since = result.evictions[0].time
    pods = await installation.deployed.cluster.request("GET", "/api/v1/pods")
    replacements = [
        pod["metadata"]
        for pod in pods["items"]
        if datetime.fromisoformat(pod["metadata"]["creationTimestamp"]) > since
        and (pod["metadata"]["namespace"], pod["metadata"]["name"].rsplit("-", 2)[0]) in evicted
    ]
    hinted = [metadata for metadata in replacements if HINTED in metadata["annotations"]]
    print(f"{len(hinted)} of {len(replacements)} replacements have a hint")

    assert len(replacements) > 10
    assert len(hinted) >= 0.9 * len(replacements)


async def test_hints_are_written_after_every_kill(installation: Installation, result: RunResult) -> None:
    """By the annotator alone, with the permissions of k8s/hints; the API server refuses none."""
    writes = [each for verb in ("create", "update") for each in requests(installation, "placementhints", verb)]
    times = sorted(datetime.fromisoformat(each["requestReceivedTimestamp"]).timestamp() for each in writes)

    assert {ANNOTATOR} == {each["user"]["username"] for each in writes}
    assert [] == [each for each in writes if each["responseStatus"]["code"] not in (200, 201, 409)]
    for service, (killed, ready) in result.downtimes.items():
        assert times[-1] > ready > killed, service


def requests(installation: Installation, resource: str, verb: str) -> Iterator[dict[str, Any]]:
    """Those in the audit log, without dry runs."""
    for line in installation.deployed.cluster.audit_log.read_text().splitlines():
        event = json.loads(line)
        found = event.get("objectRef", {})
        is_dry_run = "dryRun" in event["requestURI"]
        if (found.get("resource"), event["verb"]) == (resource, verb) and "subresource" not in found and not is_dry_run:
            yield event
