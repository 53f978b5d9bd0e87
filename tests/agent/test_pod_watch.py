"""The pods of the node, with one that cannot be read among them."""

import asyncio
from collections.abc import Callable, Iterator
from threading import Event
from typing import Any

import msgspec
from bus_worlds import eventually

from equipoise.agent.shell.api_server import AgentApi, PodEvent, read_pods
from equipoise.agent.shell.pod_watch import PodWatch, unreadable_text
from equipoise.agent.state.watched_pods import WatchedPods
from equipoise.contracts.kubernetes.objects import Pod


def a_batch_pod(name: str, cpu: str = "1000", **status: Any) -> dict[str, Any]:
    resources = {"requests": {"kubernetes.io/batch-cpu": cpu}, "limits": {"kubernetes.io/batch-cpu": cpu}}
    metadata = {"name": name, "namespace": "jobs", "uid": f"uid-{name}", "resourceVersion": "7"}
    return {"metadata": metadata, "spec": {"containers": [{"name": "c", "resources": resources}]}, "status": status}


def page(*pods: Any) -> bytes:
    return msgspec.json.encode({"metadata": {"resourceVersion": "5"}, "items": pods})


class SentPods(AgentApi):
    """In place of the API server: a list, and then events until the test ends."""

    def __init__(self, listed: bytes, *events: dict[str, Any]) -> None:
        self.listed = listed
        self.events = events
        self.versions: list[str] = []
        self.ended = Event()

    def list_pods(self, node: str, read: Callable[[Pod], None]) -> str:
        return read_pods(self.listed, read).resource_version

    def watch_pods(self, node: str, version: str) -> Iterator[PodEvent]:
        self.versions.append(version)
        if len(self.versions) == 1:
            for event in self.events:
                yield PodEvent(type=event["type"], object=msgspec.Raw(msgspec.json.encode(event["object"])))
        else:
            self.ended.wait()


async def test_a_pod_that_cannot_be_read_is_named_and_hides_no_other() -> None:
    """It is left as the kubelet made it, also if it could be read before; the watch goes on from its version."""
    year = {"startTime": "0000-01-01T00:00:00Z"}
    api = SentPods(
        page(a_batch_pod("a"), a_batch_pod("bad", **year), a_batch_pod("huge", "1e308"), 5, a_batch_pod("b")),
        {"type": "MODIFIED", "object": a_batch_pod("a", **year)},
        {"type": "MODIFIED", "object": a_batch_pod("bad")},
        {"type": "DELETED", "object": a_batch_pod("huge", "1e308")},
    )
    pods = WatchedPods()
    watch = PodWatch(api, "node-a", pods, monotonic=lambda: 0.0, jitter=lambda: 0.0)
    watch.start()
    await eventually(lambda: len(api.versions) == 2)
    try:
        assert watch.problem is None
        assert (pods.by_uid or {}).keys() == {"uid-b", "uid-bad"}
        assert api.versions == ["5", "7"]
        text = unreadable_text(watch.unreadable) or ""
        assert text.startswith("pods: 2 cannot be read: ")
        assert "jobs/a (status.startTime: Invalid RFC3339" in text
    finally:
        watch.stop()
        api.ended.set()
        await asyncio.sleep(0)


def test_every_pod_of_a_page_is_read_that_can_be() -> None:
    found: list[Pod] = []
    metadata = read_pods(page(a_batch_pod("a"), {"metadata": []}, None, a_batch_pod("b", conditions=5)), found.append)
    assert [pod.metadata.name for pod in found] == ["a", "", "", "b"]
    assert [bool(pod.metadata.unreadable) for pod in found] == [False, True, True, True]
    assert metadata.resource_version == "5"
