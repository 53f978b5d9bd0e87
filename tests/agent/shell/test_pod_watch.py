"""The pods of the node, with one that cannot be read among them."""

import asyncio
import json
from collections.abc import Callable, Iterator
from io import BytesIO
from threading import Event
from typing import Any

import msgspec
import pytest
from bus_worlds import eventually

from equipoise.agent.shell.api_server import LONGEST, AgentApi, PodEvent, RequestFailed, read_events, read_pods
from equipoise.agent.shell.pod_watch import PodWatch, unreadable_text
from equipoise.agent.state.watched_pods import WatchedPods
from equipoise.contracts.kubernetes.objects.pod import Pod
from equipoise.contracts.unreadable.lenient_decoding import DECODE_ERRORS, read_object


def a_batch_pod(name: str, cpu: str = "1000", **status: Any) -> dict[str, Any]:
    resources = {"requests": {"kubernetes.io/batch-cpu": cpu}, "limits": {"kubernetes.io/batch-cpu": cpu}}
    metadata = {"name": name, "namespace": "jobs", "uid": f"uid-{name}", "resourceVersion": "7"}
    return {"metadata": metadata, "spec": {"containers": [{"name": "c", "resources": resources}]}, "status": status}


def page(*pods: Any) -> bytes:
    return msgspec.json.encode({"metadata": {"resourceVersion": "5"}, "items": pods})


class SentPods(AgentApi):
    """A replacement of the API server: a list, and then events until the test ends."""

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

    def end_watch(self) -> None:
        self.ended.set()


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


def an_event(name: str, length: int = 0) -> bytes:
    """A line of at least this length."""
    pod = a_batch_pod(name)
    line = json.dumps({"type": "MODIFIED", "object": pod}, separators=(",", ":"))
    pod["spec"]["nodeName"] = "x" * (length - len(line) - len(',"nodeName":""') - 1)
    return json.dumps({"type": "MODIFIED", "object": pod}, separators=(",", ":")).encode() + b"\n"


def read_names(body: bytes) -> list[tuple[str, bool]]:
    pods = [read_object(each.object, Pod) for each in read_events(BytesIO(body))]
    return [(pod.metadata.name, bool(pod.metadata.unreadable)) for pod in pods]


def test_the_rest_of_an_event_that_is_too_long_is_no_event() -> None:
    longest, longer = an_event("b", LONGEST), an_event("c", LONGEST + 1)
    assert (len(longest), len(longer)) == (LONGEST, LONGEST + 1)
    assert read_names(longest + longer + an_event("d")) == [("b", False), ("c", True), ("d", False)]


@pytest.mark.parametrize(
    "part",
    [
        an_event("a")[:-1],
        an_event("a")[:-40],
        an_event("a", LONGEST + 1)[:-1],
        an_event("a", 2 * LONGEST)[:-40],
        b"x" * LONGEST + b"x\n",
    ],
    ids=len,
)
def test_a_part_of_an_event_is_none(part: bytes) -> None:
    """The connection broke within it, or it is not known which pod it is about: all pods are listed again."""
    with pytest.raises((RequestFailed, *DECODE_ERRORS)):
        read_names(an_event("b") + part)
