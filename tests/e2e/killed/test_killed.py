"""One of two collectors, one of two annotators and the scorer, NATS and Prometheus are killed while the usage of every
node changes.

A minute after the kill no annotation is stale, no score is wrong, new pods prefer every idle node to any hot one, no
node is missing, and the remaining replica has taken over. At each kill hot nodes become idle and idle nodes hot, so any
stale value is wrong by 60 points. A pod that is created meanwhile is placed, with the last hint of its workload.
"""

import asyncio
import time
from collections.abc import AsyncIterator

import pytest
from cluster_fixtures import StartCluster
from e2e.killed.configuration import NODES, SHARDS
from e2e.killed.loop import Loop, running_loop

from equipoise.collector.decisions.sharding import shard_of
from equipoise.collector.shell.shard_ownership import BUS_TIMEOUT
from equipoise.contracts.hashing import owner

NATS_DOWNTIME = BUS_TIMEOUT + 5.0
"""Seconds. Longer than the time after which a collector that cannot publish releases its shards."""

pytestmark = pytest.mark.timeout(600)


@pytest.fixture(scope="module")
async def loop(mutating_policies: None, start_cluster: StartCluster) -> AsyncIterator[Loop]:
    async with running_loop(await asyncio.to_thread(start_cluster, nats=True)) as loop:
        yield loop


async def assert_recovers(loop: Loop, since: float) -> None:
    """Within a minute; prints the time."""
    seconds = await loop.until(loop.correct, "all values are correct again", since=since)
    print(f"correct again {seconds:.1f} s after the kill")
    await loop.add_pod()


async def test_the_other_collector_takes_over(loop: Loop) -> None:
    """It acquires the Lease of the other shard and publishes all nodes."""
    await loop.start_all()
    killed = loop.program((await loop.holders())[shard_of(NODES[0], SHARDS)])

    killed.kill()
    since = time.monotonic()
    await loop.swap_usage()
    await loop.add_pod()

    assert len(await loop.errors()) > len(NODES)
    await assert_recovers(loop, since)
    (survivor,) = loop.identities("collector")
    assert await loop.holders() == [survivor, survivor]


async def test_the_other_annotator_takes_over_and_the_scorer_starts_again(loop: Loop) -> None:
    """The Lease of the killed annotator expires, and the other writes to all objects. The scorer, killed with it, gets
    the last messages of all subjects, and computes scores and hints from them."""
    await loop.start_all()
    killed, scorer = loop.program(owner(f"node/{NODES[0]}", await loop.members())), loop.programs["scorer-0"]

    killed.kill()
    scorer.kill()
    since = time.monotonic()
    await loop.swap_usage()
    await loop.add_pod()

    assert len(await loop.errors()) > len(NODES)
    scorer.start()
    await assert_recovers(loop, since)
    assert await loop.members() == loop.identities("annotator")


async def test_services_recover_after_an_outage_of_nats(loop: Loop) -> None:
    """It restarts with its stored data, after the collectors have released their shards."""
    await loop.start_all()

    await asyncio.to_thread(loop.cluster.kill, "nats-server")
    since = time.monotonic()
    await loop.swap_usage()
    await loop.add_pod()
    await loop.until(
        lambda: loop.reported("nats", ("collector", "annotator", "scorer")), "all services report that NATS is missing"
    )
    await asyncio.sleep(since + NATS_DOWNTIME - time.monotonic())
    assert len(await loop.errors()) > len(NODES)
    await asyncio.to_thread(loop.cluster.restart, "nats-server")
    await assert_recovers(loop, since)
    await loop.until(loop.all_shards_held, "both shards have a holder")


async def test_collectors_recover_after_an_outage_of_prometheus(loop: Loop) -> None:
    """It restarts with its data, after both collectors have reported that they cannot measure."""
    await loop.start_all()

    await asyncio.to_thread(loop.cluster.kill, "prometheus")
    since = time.monotonic()
    await loop.swap_usage()
    await loop.add_pod()
    await loop.until(
        lambda: loop.reported("Prometheus at http", ("collector",)), "both collectors report that Prometheus is missing"
    )
    assert len(await loop.errors()) > len(NODES)
    await asyncio.to_thread(loop.cluster.restart, "prometheus")
    await assert_recovers(loop, since)
