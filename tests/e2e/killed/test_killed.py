"""One of two collectors, one of two annotators, NATS and Prometheus are killed while every node's usage changes.

A minute after the kill no annotation is stale, no score is wrong and no node is lost; who is left has what the dead one
had. Hot nodes become idle and idle ones hot at each kill, so whatever nobody renews is wrong by 60 points.
"""

import asyncio
import time
from collections.abc import AsyncIterator

import pytest
from cluster_fixtures import StartCluster
from e2e.killed.configuration import NODES, SHARDS
from e2e.killed.loop import Loop, running

from equipoise.annotator.decisions.hashing import owner
from equipoise.collector.decisions.sharding import shard_of
from equipoise.collector.shell.shard_ownership import BUS_TIMEOUT

NATS_AWAY = BUS_TIMEOUT + 5.0
"""Seconds: long enough that a collector has handed on shards because it could not speak."""

pytestmark = pytest.mark.timeout(600)


@pytest.fixture(scope="module")
async def loop(start_cluster: StartCluster) -> AsyncIterator[Loop]:
    async with running(await asyncio.to_thread(start_cluster, nats=True)) as loop:
        yield loop


async def healed(loop: Loop, since: float) -> None:
    """Within the minute; says when."""
    took = await loop.until(loop.right, "all is right again", since=since)
    print(f"right again {took:.1f} s after the kill")


async def test_one_of_two_collectors(loop: Loop) -> None:
    """Its shard's Lease goes to the other, which tells of all nodes from then on."""
    await loop.whole()
    dead = loop.program((await loop.holders())[shard_of(NODES[0], SHARDS)])

    dead.kill()
    since = time.monotonic()
    await loop.turn()

    assert len(await loop.wrong()) > len(NODES)
    await healed(loop, since)
    (survivor,) = loop.identities("collector")
    assert await loop.holders() == [survivor, survivor]


async def test_one_of_two_annotators(loop: Loop) -> None:
    """Its seat runs out, and the other writes on its objects."""
    await loop.whole()
    dead = loop.program(owner(f"node/{NODES[0]}", await loop.seats()))

    dead.kill()
    since = time.monotonic()
    await loop.turn()

    assert len(await loop.wrong()) > len(NODES)
    await healed(loop, since)
    assert await loop.seats() == loop.identities("annotator")


async def test_nats(loop: Loop) -> None:
    """It comes back with its store, after so long that collectors had handed on what they could not tell of."""
    await loop.whole()

    await asyncio.to_thread(loop.cluster.kill, "nats-server")
    since = time.monotonic()
    await loop.turn()
    await loop.until(lambda: loop.noticed("nats", ("collector", "annotator", "scorer")), "everyone misses NATS")
    await asyncio.sleep(since + NATS_AWAY - time.monotonic())
    assert len(await loop.wrong()) > len(NODES)
    await asyncio.to_thread(loop.cluster.restart, "nats-server")
    await healed(loop, since)
    await loop.until(loop.held, "both shards are told of")


async def test_prometheus(loop: Loop) -> None:
    """It comes back with its data, when both collectors have told that they cannot measure."""
    await loop.whole()

    await asyncio.to_thread(loop.cluster.kill, "prometheus")
    since = time.monotonic()
    await loop.turn()
    await loop.until(lambda: loop.noticed("prometheus", ("collector",)), "both collectors miss Prometheus")
    assert len(await loop.wrong()) > len(NODES)
    await asyncio.to_thread(loop.cluster.restart, "prometheus")
    await healed(loop, since)
