"""A collection that is kept true whatever the API server and the network do."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Any

import msgspec
import pytest
from kube_worlds import NAMESPACE, RealWorld
from structlog.testing import capture_logs

from equipoise.contracts.kubernetes.objects.cluster import ConfigMap
from equipoise.contracts.kubernetes.objects.metadata import ObjectMeta
from equipoise.contracts.kubernetes.objects.pod import Pod
from equipoise.runtime.kubernetes.client import CONFIG_MAPS, PODS, KubeError
from equipoise.runtime.kubernetes.reflector import Reflector
from equipoise.runtime.process.clock import SystemClock
from equipoise.testbed.memory.clock import ManualClock, settle
from equipoise.testbed.memory.kube import MemoryKube

Received = list[tuple[str | None, str | None]]
"""What `data["v"]` was before and after; None for absent."""


def item(name: str, v: str = "1", **metadata: Any) -> ConfigMap:
    return ConfigMap(metadata=ObjectMeta(name=name, namespace=NAMESPACE, **metadata), data={"v": v})


def value(held: ConfigMap | None) -> str | None:
    return None if held is None else f"{held.metadata.name}={held.data.get('v')}"


class Replicas:
    """Several API servers behind one address."""

    def __init__(self, current: MemoryKube) -> None:
        self.current = current

    def __getattr__(self, name: str) -> Any:
        return getattr(self.current, name)


class Followed:
    """A running reflector of an in-memory API server, and what it reported."""

    def __init__(self, clock: ManualClock, kube: MemoryKube, client: Any = None, **arguments: Any) -> None:
        self.clock = clock
        self.kube = kube
        self.received: Received = []
        self.reflector = Reflector(
            client or kube,
            CONFIG_MAPS,
            clock=clock,
            on_change=lambda before, after: self.received.append((value(before), value(after))),
            **arguments,
        )

    @property
    def names(self) -> list[str]:
        return sorted(name for _, name in self.reflector.objects)

    @property
    def watches(self) -> int:
        return sum(call.verb == "watch" for call in self.kube.calls)

    def put(self, name: str, v: str = "1", **metadata: Any) -> None:
        self.kube.put(CONFIG_MAPS, item(name, v, **metadata))

    def remove(self, name: str) -> None:
        self.kube.remove(CONFIG_MAPS, name, NAMESPACE)


@contextlib.asynccontextmanager
async def running(followed: Followed) -> AsyncIterator[Followed]:
    task = asyncio.create_task(followed.reflector.run())
    await settle()
    try:
        yield followed
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task


@pytest.fixture
async def followed() -> AsyncIterator[Followed]:
    """Three objects, listed and followed."""
    clock = ManualClock()
    kube = MemoryKube(clock)
    for name in ("a", "b", "c"):
        kube.put(CONFIG_MAPS, item(name))
    async with running(Followed(clock, kube)) as followed:
        assert [(None, "a=1"), (None, "b=1"), (None, "c=1")] == followed.received
        followed.received.clear()
        yield followed


async def test_every_change_is_reported(followed: Followed) -> None:
    """Creations, changes and deletions are reported with the previous object."""
    followed.put("d")
    followed.put("a", "2")
    followed.remove("b")
    await settle()

    assert [(None, "d=1"), ("a=1", "a=2"), ("b=1", None)] == followed.received
    assert ["a", "c", "d"] == followed.names
    assert followed.reflector.problem is None


async def test_a_lost_past_is_made_up_for(followed: Followed) -> None:
    """After 410 the collection is listed again: missing objects are deleted, others reported if changed."""
    followed.kube.expire()
    followed.remove("b")
    followed.put("c", "2")
    followed.put("d")
    await followed.clock.advance(1)

    assert [("b=1", None), ("c=1", "c=2"), (None, "d=1")] == followed.received
    assert ["a", "c", "d"] == followed.names


async def test_another_object_under_an_old_name(followed: Followed) -> None:
    """Deleted and created again without a watch: two changes, never a modification of one pod into another."""
    followed.kube.expire()
    followed.remove("a")
    followed.put("a", "2")
    await followed.clock.advance(1)

    assert [("a=1", None), (None, "a=2")] == followed.received


async def test_a_broken_watch_goes_on_where_it_broke(followed: Followed) -> None:
    """No list is needed: the server sends the changes of the meantime."""
    followed.kube.end_watches(KubeError(0, "Unreachable", "reset by peer"))
    await settle()
    followed.remove("a")
    assert "reset by peer" in str(followed.reflector.problem)
    await followed.clock.advance(1)

    assert [("a=1", None)] == followed.received
    assert followed.reflector.problem is None


async def test_an_event_that_cannot_be_decoded_leads_to_a_new_list(followed: Followed) -> None:
    """Otherwise the same event would arrive again and again."""
    followed.kube.end_watches(KubeError(0, "Unreadable", "expected `str`"))
    await settle()
    followed.remove("a")
    followed.kube.expire()
    await followed.clock.advance(1)

    assert [("a=1", None)] == followed.received
    assert 2 == followed.watches


async def test_a_half_open_connection_is_noticed(followed: Followed) -> None:
    """A watch without events for 90 s ends; bookmarks are events."""
    for _ in range(3):
        await followed.clock.advance(60)
        followed.kube.bookmark()
        await settle()
    assert 1 == followed.watches
    assert 0 == followed.reflector.age

    followed.kube.silent = True
    followed.remove("a")
    await followed.clock.advance(89)
    assert 89 == followed.reflector.age
    followed.kube.silent = False
    await followed.clock.advance(2)

    assert [("a=1", None)] == followed.received
    assert 2 == followed.watches


async def test_a_sick_server_is_not_flooded(followed: Followed) -> None:
    """Watches that end at once are repeated with a growing pause of at most 30 s; a healthy one resets it."""
    before = followed.watches
    followed.kube.refuse("watch", status=500)
    followed.kube.end_watches()
    await followed.clock.advance(300)
    refused = followed.watches - before
    followed.kube.clear_faults()
    followed.put("a", "2")
    await followed.clock.advance(30)

    assert 10 <= refused <= 26
    assert [("a=1", "a=2")] == followed.received


async def test_watches_that_end_normally_but_at_once_count_as_failures(followed: Followed) -> None:
    """Otherwise a server that closes every watch would get a thousand requests per second."""
    before = followed.watches
    for _ in range(40):
        followed.kube.end_watches()
        await followed.clock.advance(1)

    assert followed.watches - before < 15


@pytest.fixture
async def replicas() -> AsyncIterator[tuple[Followed, Replicas]]:
    """Two servers of one cluster: the first knows a and b, the second, which lags behind, only a."""
    clock = ManualClock()
    ahead, behind = MemoryKube(clock), MemoryKube(clock)
    for kube, names in ((ahead, "ab"), (behind, "a")):
        for name in names:
            kube.put(CONFIG_MAPS, item(name))
    servers = Replicas(ahead)
    async with running(Followed(clock, ahead, client=servers)) as followed:
        followed.received.clear()
        servers.current = behind
        ahead.expire()
        await clock.advance(0.1)
        while "already known at 2" not in str(followed.reflector.problem):
            await clock.advance(0.1)
        yield followed, servers


async def test_the_list_of_a_server_that_lags_behind_is_rejected(replicas: tuple[Followed, Replicas]) -> None:
    """Its list is discarded and requested again: nothing of the old state is reported."""
    followed, servers = replicas
    servers.current = followed.kube
    await followed.clock.advance(2)

    assert [] == followed.received
    assert ["a", "b"] == followed.names
    assert followed.reflector.problem is None


async def test_the_state_of_a_restored_store_is_accepted_at_the_second_list(
    replicas: tuple[Followed, Replicas],
) -> None:
    """After a restore of etcd the old state is correct: the second such list is accepted."""
    followed, _ = replicas
    await followed.clock.advance(2)

    assert [("b=1", None)] == followed.received
    assert ["a"] == followed.names


async def test_wait_synced_reports_why_it_waits() -> None:
    """The first list has an end to wait for, and a reason when it does not come."""
    clock = ManualClock()
    kube = MemoryKube(clock)
    kube.refuse("watch", status=403)
    async with running(Followed(clock, kube)) as followed:
        waiting = asyncio.create_task(followed.reflector.wait_synced(20))
        await clock.advance(21)
        with pytest.raises(TimeoutError, match="403"):
            await waiting
        assert float("inf") == followed.reflector.age

        kube.clear_faults()
        waiting = asyncio.create_task(followed.reflector.wait_synced(60))
        await clock.advance(31)
        await waiting
        assert followed.reflector.age < 60


async def test_only_fields_that_are_read_are_stored() -> None:
    """`trim` is applied before an object is stored or reported; equal labels are one text in memory."""

    def trim(held: ConfigMap) -> ConfigMap:
        return msgspec.structs.replace(held, metadata=msgspec.structs.replace(held.metadata, annotations={}))

    clock = ManualClock()
    kube = MemoryKube(clock)
    for name in ("a", "b"):
        label = "".join(["long ", "text"])
        kube.put(CONFIG_MAPS, item(name, annotations={"big": "x" * 1000}, labels={"app": label}))
    async with running(Followed(clock, kube, trim=trim)) as followed:
        first, second = followed.reflector.objects.values()

    assert {} == first.metadata.annotations
    assert first.metadata.labels["app"] is second.metadata.labels["app"]


async def test_follows_a_real_api_server(real: RealWorld) -> None:
    """Pods that are there, a pod that changes, and a pod that goes."""
    pod = await real.run_pod("followed")
    received: asyncio.Queue[tuple[Pod | None, Pod | None]] = asyncio.Queue()
    reflector = Reflector(
        real.kube,
        PODS,
        clock=SystemClock(),
        namespace=NAMESPACE,
        on_change=lambda before, after: received.put_nowait((before, after)),
    )
    key = (NAMESPACE, pod.metadata.name)

    async def until(condition: Any) -> None:
        while not condition(*(await received.get())):
            pass

    async with asyncio.timeout(60), asyncio.TaskGroup() as group:
        following = group.create_task(reflector.run())
        await reflector.wait_synced(60)
        assert pod.metadata.uid == reflector.objects[key].metadata.uid
        assert reflector.age < 5

        await real.kube.annotate(PODS, pod.metadata.name, {"x": "1"}, namespace=NAMESPACE)
        await until(lambda before, after: before and after and after.metadata.annotations.get("x") == "1")
        await real.remove(pod)
        await until(lambda before, after: before and before.metadata.uid == pod.metadata.uid and after is None)
        assert key not in reflector.objects
        following.cancel()


def unreadable(name: str) -> bytes:
    """A ConfigMap with a text where an object belongs."""
    return msgspec.json.encode({"metadata": {"name": name, "namespace": NAMESPACE}, "data": "none"})


async def test_an_object_that_cannot_be_decoded_hides_no_other(followed: Followed) -> None:
    """It is kept as such and named, and what it was before is not used any more, until it is readable or gone."""
    followed.kube.put_json(CONFIG_MAPS, unreadable("b"))
    followed.put("d")
    await settle()

    reason = "data: Expected `object`, got `str`"
    assert followed.reflector.objects[NAMESPACE, "b"].metadata.unreadable == reason
    assert (None, "d=1") in followed.received
    assert followed.reflector.problem is None
    assert list(followed.kube.unreadable) == [("configmaps", "shop/b", reason)]
    async with running(Followed(followed.clock, followed.kube)) as later:
        assert later.names == ["a", "b", "c", "d"]
    followed.put("b", "2")
    await settle()
    assert "b=2" in str(followed.received[-1])
    assert list(followed.kube.unreadable) == []
    followed.kube.put_json(CONFIG_MAPS, unreadable("b"))
    await settle()
    assert list(followed.kube.unreadable)
    followed.remove("b")
    await settle()
    assert list(followed.kube.unreadable) == []


async def test_a_change_that_cannot_be_processed_ends_nothing() -> None:
    """It is named and logged with its traceback; the other objects are followed, and it is again when it changes."""
    clock = ManualClock()
    kube = MemoryKube(clock)
    received: Received = []

    def on_change(before: ConfigMap | None, after: ConfigMap | None) -> None:
        if after is not None and after.data["v"] == "bad":
            raise OverflowError("too large")
        received.append((value(before), value(after)))

    reflector = Reflector(kube, CONFIG_MAPS, clock=clock, on_change=on_change)
    kube.put(CONFIG_MAPS, item("a", "bad"))
    kube.put(CONFIG_MAPS, item("b"))
    with capture_logs() as lines:
        task = asyncio.create_task(reflector.run())
        await settle()
        kube.put(CONFIG_MAPS, item("b", "bad"))
        kube.put(CONFIG_MAPS, item("c"))
        await settle()
        assert received == [(None, "b=1"), (None, "c=1")]
        assert {name for _, name, _ in kube.unreadable} == {"shop/a", "shop/b"}
        kube.put(CONFIG_MAPS, item("a"))
        kube.remove(CONFIG_MAPS, "b", NAMESPACE)
        await settle()
        assert list(kube.unreadable) == []
    assert [line["object"] for line in lines if line.get("exc_info")] == ["shop/a", "shop/b"]
    assert not task.done()
    task.cancel()


async def test_an_object_that_cannot_be_trimmed_ends_nothing() -> None:
    clock = ManualClock()
    kube = MemoryKube(clock)

    def trim(value: ConfigMap) -> ConfigMap:
        if value.data["v"] == "bad":
            raise OverflowError("too large")
        return value

    kube.put(CONFIG_MAPS, item("a", "bad"))
    kube.put(CONFIG_MAPS, item("b"))
    async with running(Followed(clock, kube, trim=trim)) as followed:
        assert followed.received == [(None, "a=bad"), (None, "b=1")]
        assert "OverflowError: too large" in followed.reflector.objects[NAMESPACE, "a"].metadata.unreadable
        assert [name for _, name, _ in kube.unreadable] == ["shop/a"]
        followed.put("a")
        await settle()
        assert list(kube.unreadable) == []
